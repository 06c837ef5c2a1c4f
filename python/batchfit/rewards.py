# SPDX-License-Identifier: Apache-2.0
"""Reward models as trl's RewardTrainer trains them: a decoder whose head gives one number, read at the last token, on the preferred answers
of a batch and behind them the others. Sources: trl 0.24.0 and 1.16.0 (trainer/reward_trainer.py); before 0.24 each half has a pass of its
own, which needs no more.
"""

import torch
import torch.nn.functional as F

from .preference import PairJob


class RewardJob(PairJob):
    """Pairs of full length."""

    def inputs(self, batch):
        return {"input_ids": self._tokens(2 * batch, self.length), "attention_mask": self._tokens(2 * batch, self.length, True)}

    @staticmethod
    def call(model, inputs, _):
        """The rewards of a batch."""
        return model(**inputs, use_cache=False).logits

    @staticmethod
    def kept(out):
        """The same where autocast has ended."""
        return out.float()

    def forward_loss(self, inputs):
        """(None, loss)"""
        rewards = self._call(self, self.model, inputs)
        chosen, rejected = torch.chunk(rewards.squeeze(-1), chunks=2)
        loss = -F.logsigmoid(chosen - rejected).mean()
        inputs["attention_mask"].sum().sum().item()
        with torch.no_grad():
            for x in (rewards.min(), rewards.mean(), rewards.max()):
                x.item()
            right = (chosen > rejected).float().mean()
            right.mean().item()
            margin = (chosen - rejected).mean().mean()
            margin.item()
        return None, loss
