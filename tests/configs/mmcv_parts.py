_base_ = 'mmcv_part_data.py'
model = dict(type='FasterRCNN', backbone=dict(type='ResNet', depth=50))
data = dict(samples_per_gpu=8)
optimizer = dict(type='SGD', lr=0.02)
optimizer_config = dict(type='GradientCumulativeOptimizerHook', cumulative_iters=2)
fp16 = dict(loss_scale=512.)
