# In the style of XTuner v1: a program that makes objects.
import os

from xtuner.v1.config import AdamWConfig
from xtuner.v1.train.rl_trainer import RLColocateTrainerConfig

batch_size = 256
trainer = RLColocateTrainerConfig(optim=AdamWConfig(lr=1e-6), global_batch_size=batch_size, model=os.environ['MODEL'])
