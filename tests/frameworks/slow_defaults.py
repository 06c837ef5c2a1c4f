# SPDX-License-Identifier: Apache-2.0
"""The defaults of data/dialects.tsv against the trainers' own: Transformers' and TRL's classes as they are, the others' source, which is
read, not imported, for they bring half of the world with them. What is not installed is skipped; for all of it:
pip install --no-deps --target DIR llamafactory axolotl mmengine open_clip_torch monai speechbrain deepspeed, and PYTHONPATH=DIR."""
import dataclasses
import importlib
import os
import unittest

import yaml

import defaults

# The tables are of the newest versions.
NEEDS_TORCH_2 = True

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

    def found(self, package):
        folder = defaults.folder_of(package)
        if not folder:
            self.skipTest(f'{package} is not installed: its defaults are not compared')
        return folder

    def compare(self, dialect, values, roles):
        self.assertEqual(defaults.wrong(dialect, lambda key: values.get(key, defaults.NOT_THERE), roles), [])

    def precision(self, dialect, is_on, word):
        """A switch for mixed precision: what the table says where it is on or off by default."""
        self.assertIn(is_on, (True, False))
        self.assertEqual(defaults.rows(dialect)['precision'][1], word if is_on else 'fp32')

    def test_lightning(self):
        folder = self.found('lightning')
        values = defaults.signature_defaults(folder, 'pytorch/trainer/trainer.py', 'Trainer')
        for dialect in ('lightning', 'lightning_tree', 'nemo_data'):
            self.compare(dialect, values, ['accumulation'])
            self.precision(dialect, values['precision'] is not None, '')
        with open(os.path.join(folder, 'pytorch/trainer/connectors/accelerator_connector.py'), encoding='utf-8') as f:
            self.assertIn('"32-true" if precision_flag is None', f.read())

    def test_ultralytics(self):
        with open(os.path.join(self.found('ultralytics'), 'cfg', 'default.yaml'), encoding='utf-8') as f:
            values = yaml.safe_load(f)
        self.compare('ultralytics', values, ['image_size', 'batch', 'effective', 'optimizer', 'lr', 'workers', 'compile'])
        self.precision('ultralytics', values['amp'], 'amp-fp16')

    def test_mmengine(self):
        values = defaults.signature_defaults(self.found('mmengine'), 'optim/optimizer/optimizer_wrapper.py', 'OptimWrapper')
        self.compare('mmengine', values, ['accumulation'])
        self.compare('xtuner', values, ['accumulation'])

    def test_open_clip(self):
        values = defaults.option_defaults(self.found('open_clip_train'), 'params.py')
        self.compare('open_clip', values, ['batch', 'accumulation', 'checkpointing', 'workers'])
        self.precision('open_clip', values['precision'] == 'amp', 'amp-fp16')

    def test_monai(self):
        values = defaults.signature_defaults(self.found('monai'), 'engines/trainer.py', 'SupervisedTrainer')
        self.precision('monai', values['amp'], 'amp-fp16')

    def test_deepspeed(self):
        values = defaults.constant_defaults(self.found('deepspeed'), 'runtime/constants.py')
        self.precision('deepspeed', values['FP16_ENABLED_DEFAULT'] or values['BFLOAT16_ENABLED_DEFAULT'], '')

    def test_speechbrain(self):
        values = defaults.source_defaults(self.found('speechbrain'), ['utils/run_opts.py'])
        self.compare('speechbrain', values, ['accumulation'])
        self.assertEqual((values['precision'], defaults.rows('speechbrain')['precision'][1]), ('fp32', 'fp32'))
