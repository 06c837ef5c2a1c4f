images_per_gpu = 2**4
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='RandomResizedCrop', scale=224),
]
train_dataloader = dict(
    batch_size=images_per_gpu,
    num_workers=5,
    dataset=dict(type='ImageNet', pipeline=train_pipeline),
)
val_dataloader = dict(batch_size=64)
