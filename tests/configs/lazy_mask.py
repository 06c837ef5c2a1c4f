from detectron2 import model_zoo
from detectron2.config import LazyCall as L
from detectron2.modeling import GeneralizedRCNN

dataloader = model_zoo.get_config('common/data/coco.py').dataloader
dataloader.train.total_batch_size = 8 * 2
dataloader.train.mapper.use_instance_mask = True
model = L(GeneralizedRCNN)(backbone=dict(depth=50))
model.roi_heads = dict(num_classes=3)
optimizer = model_zoo.get_config('common/optim.py').SGD
optimizer.lr = 0.02
train = dict(amp=dict(enabled=True), max_iter=90_000)
