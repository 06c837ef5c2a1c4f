# a small model on one GPU
import time

out_dir = 'out-char'
run_name = 'run' + str(time.time())
batch_size = 16
block_size = 512
gradient_accumulation_steps = 5 * 8  # as if there were 8 GPUs
learning_rate = 1e-3
max_iters = 5_000
dtype = 'float16'
