model = dict(
    type='RetinaNet',
    backbone=dict(type='mmpretrain.TIMMBackbone', model_name='resnet50', features_only=True),
    bbox_head=dict(type='RetinaHead', num_classes=9))
train_pipeline = [dict(type='Resize', scale=(1024, 640)), dict(type='RandomFlip', prob=0.5)]
train_dataloader = dict(batch_size=6, dataset=dict(type='RepeatDataset', dataset=dict(pipeline=train_pipeline)))
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.01))
