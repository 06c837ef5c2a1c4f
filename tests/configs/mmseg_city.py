crop_size = (512, 1024)
model = dict(type='EncoderDecoder', backbone=dict(type='ResNet', depth=50), decode_head=dict(num_classes=19))
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='RandomResize', scale=(2048, 1024), keep_ratio=True),
    dict(type='RandomCrop', crop_size=crop_size),
]
train_dataloader = dict(batch_size=4, num_workers=2, dataset=dict(type='CityscapesDataset', pipeline=train_pipeline))
optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='SGD', lr=0.01))
