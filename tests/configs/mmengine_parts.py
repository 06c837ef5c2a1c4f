_base_ = ['mmengine_part_data.py', 'mmengine_part_run.py']

# Twice the batch of the base, a deeper model, half precision.
train_dataloader = dict(batch_size=_base_.images_per_gpu * 2)
model = dict(
    type='ImageClassifier',
    backbone=dict(type='ResNet', depth=101, with_cp=True),
    head=dict(_delete_=True, type='LinearHead', num_classes=17),
)
optim_wrapper = dict(type='AmpOptimWrapper', dtype='bfloat16', accumulative_counts=4)
