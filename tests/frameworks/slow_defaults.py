# SPDX-License-Identifier: Apache-2.0
"""The defaults of data/dialects.tsv against the trainers' own: Transformers' and TRL's classes as they are, LLaMA-Factory's and Axolotl's
source, which is read, not imported, for they bring half of the world with them: pip install --no-deps llamafactory axolotl is enough."""
import dataclasses
import importlib
import unittest

import defaults

ROLES = ['batch', 'accumulation', 'eval_batch', 'precision', 'optimizer', 'checkpointing', 'workers', 'compile']


def fields(name, path):
    """The value that each field of a class has when nothing is said; bf16 as TRL resolves it, None being "unless fp16"."""
    module, _, cls = path.rpartition('.')
    try:
        of = getattr(importlib.import_module(module), cls)
    except ImportError as e:
        raise unittest.SkipTest(f'{name} is not installed: {e}') from e
    values = {f.name: f.default for f in dataclasses.fields(of) if f.default is not dataclasses.MISSING}
    if name == 'trl' and values.get('bf16') is None:
        values['bf16'] = not values['fp16']
    return lambda key: values.get(key, defaults.NOT_THERE)


class Defaults(unittest.TestCase):
    def check(self, dialect, name, path, roles):
        self.assertEqual(defaults.wrong(dialect, fields(name, path), roles), [])

    def test_training_arguments(self):
        self.check('huggingface', 'transformers', 'transformers.training_args.TrainingArguments', ROLES + ['lr'])

    def test_sft(self):
        self.check('trl', 'trl', 'trl.trainer.sft_config.SFTConfig', ROLES + ['sequence_length'])

    def test_dpo(self):
        self.check('trl', 'trl', 'trl.trainer.dpo_config.DPOConfig', ROLES + ['sequence_length'])

    def test_a_wrong_default_is_found(self):
        known = {'per_device_train_batch_size': 4, 'gradient_accumulation_steps': 1}
        lines = defaults.wrong('huggingface', lambda key: known.get(key, defaults.NOT_THERE), ['batch', 'accumulation', 'workers'])
        self.assertEqual(len(lines), 2, lines)
        self.assertIn('the table says 8, the trainer 4', lines[0])
        self.assertIn('nothing', lines[1])


class Sources(unittest.TestCase):
    def check(self, dialect, package, files, roles):
        folder = defaults.folder_of(package)
        if not folder:
            self.skipTest(f'{package} is not installed (pip install --no-deps {package}): its defaults are not compared')
        found = defaults.source_defaults(folder, files)
        self.assertEqual(defaults.wrong(dialect, lambda key: found.get(key, defaults.NOT_THERE), roles), [])

    def test_llamafactory(self):
        self.check('llamafactory', 'llamafactory', ['hparams/data_args.py', 'hparams/model_args.py'], ['sequence_length', 'checkpointing'])

    def test_axolotl(self):
        files = ['config.py', 'training.py', 'enums.py', 'model.py', 'datasets.py']
        self.check('axolotl', 'axolotl', ['utils/schemas/' + name for name in files], ['sequence_length', 'batch', 'optimizer', 'checkpointing'])

    # What LLaMA-Factory takes over from Transformers is compared there.
    def test_llamafactory_is_transformers(self):
        ours, theirs = defaults.rows('llamafactory'), defaults.rows('huggingface')
        for role in ('batch', 'accumulation', 'eval_batch', 'precision', 'optimizer', 'lr', 'workers'):
            self.assertEqual(ours[role][1], theirs[role][1], role)
