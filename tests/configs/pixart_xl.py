# In the style of PixArt's configs: names at the top, an optimizer as a dict.
data_root = 'data/pictures'
image_size = 512
model = 'PixArtMS_XL_2'
mixed_precision = 'bf16'
vae_pretrained = 'weights/vae'
aspect_ratio_type = 'ASPECT_RATIO_512'
multi_scale = True
num_workers = 6
train_batch_size = 10
num_epochs = 5
gradient_accumulation_steps = 2
grad_checkpointing = True
optimizer = dict(type='AdamW', lr=2e-5, weight_decay=3e-2)
model_max_length = 300
