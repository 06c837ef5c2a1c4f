_base_ = ['./base.py']
train_batch = 64
train_dataloader = dict(batch_size=train_batch, num_workers=5)
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.1))
