from mmengine.optim import AmpOptimWrapper
from torch.optim import AdamW
from transformers import AutoModelForCausalLM

pretrained_model_name_or_path = 'Qwen/Qwen1.5-0.5B'
batch_size = 2
accumulative_counts = 8
max_length = 1024
model = dict(
    type='SupervisedFinetune',
    llm=dict(type=AutoModelForCausalLM.from_pretrained, pretrained_model_name_or_path=pretrained_model_name_or_path),
    lora=dict(r=16, task_type='CAUSAL_LM'))
train_dataloader = dict(batch_size=batch_size, num_workers=2)
optim_wrapper = dict(
    type=AmpOptimWrapper, optimizer=dict(type=AdamW, lr=2e-4), accumulative_counts=accumulative_counts, dtype='float16')
