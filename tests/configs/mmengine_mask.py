# In the style of self-supervised configs: the last size of the pipeline is that of a mask of patches.
model = dict(type='CAE')
train_dataloader = dict(
    batch_size=20,
    num_workers=4,
    dataset=dict(
        type='ImageNet',
        pipeline=[
            dict(type='LoadImageFromFile'),
            dict(type='RandomResizedCropAndInterpolationWithTwoPic', size=224, second_size=112, scale=(0.08, 1.0)),
            dict(type='BEiTMaskGenerator', input_size=(14, 14), num_masking_patches=75),
            dict(type='PackInputs')]))
optim_wrapper = dict(type='AmpOptimWrapper', optimizer=dict(type='AdamW', lr=1e-3))
