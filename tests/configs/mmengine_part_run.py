optim_wrapper = dict(optimizer=dict(type='AdamW', lr=1e-3, weight_decay=0.05))
train_cfg = dict(by_epoch=True, max_epochs=100)
model = dict(head=dict(type='StackedHead', mid_channels=[512]))
