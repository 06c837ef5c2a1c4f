from mmengine.config import read_base
from torch.optim import SGD

with read_base():
    from .mmengine_part_data import train_dataloader
    from .mmengine_part_run import optim_wrapper

train_dataloader.update(batch_size=48)
optim_wrapper['optimizer'].update(type=SGD, lr=0.02)
