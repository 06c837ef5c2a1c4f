# SPDX-License-Identifier: Apache-2.0
"""The event `checkpoint`: who saves, where, and whether it came to its end. Real libraries where they are installed; of DeepSpeed,
which is not, a fake with the names and arguments of its engine."""

import importlib.util
import os
import tempfile
import unittest

from emit_helper import run
from helper import modern

# Where nothing can be written. torch 1.13 notices a full disk only as it closes the file, where it ends the process.
FULL = "/dev/full" if modern() else "nowhere/x.pt"
LOOP = """
import os, pathlib
for x, y in loader:
    train(x, y)
save = lambda path: torch.save(net.state_dict(), path)
"""
# As others wrote them before: past what is watched.
BEFORE = """
def before(*names):
    for name in names: os.close(os.open(name, os.O_CREAT)); os.truncate(name, 4)
"""


def words(done, *keys):
    """(state, name, *keys) of each event, names as paths in the program's folder."""
    return [(e["state"], e["path"].split(os.sep + "at" + os.sep)[-1], *(e.get(k) for k in keys)) for e in done.all("checkpoint")]


class Checkpoints(unittest.TestCase):
    def said(self, program, *keys, status=0, **more):
        done = run(LOOP + "os.mkdir('at'); os.chdir('at')\n" + program, **more)
        self.assertEqual(done.status, status, done.err)
        return words(done, *keys)

    def test_a_file_and_its_steps(self):
        self.assertEqual(self.said("save('a.pt'); train(x, y); save(open('b.pt', 'wb'))", "step", "by"),
                         [("begin", "a.pt", 3, "torch.save"), ("end", "a.pt", 3, "torch.save"),
                          ("begin", "b.pt", 4, "torch.save"), ("end", "b.pt", 4, "torch.save")])

    def test_what_fails_is_said_and_raised(self):
        said = self.said("""
try: save('%s')
except RuntimeError as error: print(error)
torch.save(lambda: 0, 'b.pt')
""" % FULL, "error", status=1)
        self.assertEqual([(state, name) for state, name, _ in said],
                         [("begin", FULL), ("failed", FULL), ("begin", "b.pt"), ("failed", "b.pt")])
        self.assertRegex(said[1][2], "RuntimeError: .*(unexpected pos|failed writing|does not exist)")
        self.assertIn("pickle", said[3][2])

    def test_a_trial_takes_no_files_place(self):
        with tempfile.TemporaryDirectory() as scratch:
            done = run(LOOP + BEFORE + """
import shutil
os.mkdir('at'); os.chdir('at')
before('a', 'b', 'c')
save('a'); save(pathlib.Path('b')); save('x.tmp'); os.replace('x.tmp', 'c')
save('new'); size = os.path.getsize('new'); torch.save(0, 'new')
save('y.tmp'); shutil.move('y.tmp', 'renamed'); save('renamed')
save(os.path.join(os.environ['BATCHFIT_SCRATCH'], 's')); save(os.path.join(os.environ['BATCHFIT_SCRATCH'], 's'))
print([os.path.getsize(name) for name in 'abc'], size > os.path.getsize('new'), sorted(os.listdir('.')))
""", env={"BATCHFIT_SCRATCH": scratch, "BATCHFIT_TRIAL": "1"})
            self.assertEqual(done.out.splitlines()[-1], "[4, 4, 4] True ['a', 'b', 'c', 'new', 'renamed']", done.err)
            self.assertEqual(os.listdir(scratch), ["s"])
            done = run(LOOP + BEFORE + """
import pickle
before('a.pt', 'b.pkl', 'c.pth', 'log.txt')
save(open('a.pt', 'wb')); pickle.dump(net, pathlib.Path('b.pkl').open('wb')); open('log.txt', 'w').write('its')
with open('c.tmp', 'wb') as f: save(f)
os.replace('c.tmp', 'c.pth')
with open('new.pt', 'wb') as f: save(f)
save(open('new.pt', 'wb'))
print([os.path.getsize(name) for name in ('a.pt', 'b.pkl', 'c.pth', 'log.txt')], os.path.getsize('new.pt') > 0, os.path.exists('c.tmp'))
""", env={"BATCHFIT_SCRATCH": scratch, "BATCHFIT_TRIAL": "1"})
            self.assertEqual(done.out.splitlines()[-1], "[4, 4, 4, 3] True False", done.err)
            self.assertEqual(os.listdir(scratch), ["s"])
            done = run(LOOP + "open('a', 'w').close(); save('a'); print(os.path.getsize('a') > 0)", env={"BATCHFIT_SCRATCH": scratch})
            self.assertEqual(done.out.splitlines()[-1], "True", done.err)  # under `run` it is the user's own

    def test_killed_while_it_saves(self):
        said = self.said("""
class Deadly:
    def __reduce__(self): os.kill(os.getpid(), 9)
torch.save({'net': net.state_dict(), 'more': Deadly()}, 'a.pt')
""", status=-9)
        self.assertEqual(said, [("begin", "a.pt")])

    def test_another_name(self):
        self.assertEqual(self.said("save('a.tmp'); os.replace('a.tmp', 'a.pt'); open('x', 'w').close(); os.rename('x', 'y')"),
                         [("begin", "a.tmp"), ("end", "a.tmp"), ("renamed", "a.pt")])

    def test_files_of_one_folder(self):
        """Two files in a folder that is made for them: the folder, said when the training goes on. One file: the file."""
        said = self.said("""
for name in ('c-1', 'c-2'):
    os.makedirs(name, exist_ok=True); save(name + '/net.pt'); save(name + '/optimizer.pt'); train(x, y)
os.mkdir('c-3'); save('c-3/net.pt'); train(x, y)
os.mkdir('c'); save('c/net.pt'); save('c/optimizer.pt'); train(x, y)
""", "folder")
        self.assertEqual([(name, folder and os.path.basename(folder)) for state, name, folder in said if state == "end"],
                         [("c-1/net.pt", "c-1"), ("c-1/optimizer.pt", "c-1"), ("c-1", None),
                          ("c-2/net.pt", "c-2"), ("c-2/optimizer.pt", "c-2"), ("c-2", None),
                          ("c-3/net.pt", "c-3"), ("c/net.pt", None), ("c/optimizer.pt", None)])

    def test_a_folder_that_is_saved_into_again_is_none(self):
        said = self.said("""
for i in range(3):
    os.makedirs('exp3', exist_ok=True); save('exp3/last.pt'); save('exp3/best.pt'); train(x, y)
""", "folder")
        self.assertEqual([(name, bool(folder)) for state, name, folder in said if state == "end"][3:],
                         [("exp3/last.pt", False), ("exp3/best.pt", False)] * 2)

    def test_a_folder_under_another_name(self):
        said = self.said("os.mkdir('t-1'); save('t-1/a'); save('t-1/b'); os.rename('t-1', 'c-1'); train(x, y)")
        self.assertEqual([w for w in said if w[0] != "begin"],
                         [("end", "t-1/a"), ("end", "t-1/b"), ("renamed", "c-1"), ("end", "c-1")])

    def test_a_thread_that_saves(self):
        said = self.said("""
import threading
thread = threading.Thread(target=save, args=('a.pt',)); thread.start(); train(x, y); thread.join()
""", "background", "step")
        self.assertEqual(said, [("begin", "a.pt", True, None), ("end", "a.pt", True, None)])

    def test_torch_distributed_checkpoint(self):
        import torch
        if not hasattr(getattr(torch.distributed, "checkpoint", None), "async_save") and torch.__version__ < "2.4":
            self.skipTest("SKIPPED: torch.distributed.checkpoint of this torch is an older one")
        said = self.said("""
import torch.distributed as dist, torch.distributed.checkpoint as dcp
dist.init_process_group('gloo', init_method='file://' + os.path.abspath('store'), rank=0, world_size=1)
dcp.save({'net': net.state_dict()}, checkpoint_id='d1'); train(x, y)
future = dcp.async_save({'net': net.state_dict()}, checkpoint_id='d2'); train(x, y); future.result(); time.sleep(0.2)
""", "step", "by")
        self.assertEqual([w for w in said if w[3].startswith("torch.dist")],
                         [(state, name, step, "torch.distributed.checkpoint") for name, step in (("d1", 3), ("d2", 4))
                          for state in ("begin", "end")])

    def test_a_background_save_that_does_not_begin(self):
        import torch
        if torch.__version__ < "2.4":
            self.skipTest("SKIPPED: torch.distributed.checkpoint of this torch is an older one")
        said = self.said("""
import torch.distributed.checkpoint as dcp
try: dcp.async_save({'net': net.state_dict()}, checkpoint_id='d1', no_such_argument=1)
except TypeError as error: print(error)
""", "error")
        self.assertEqual([(state, name) for state, name, _ in said], [("begin", "d1"), ("failed", "d1")])
        self.assertIn("no_such_argument", said[1][2])

    def test_accelerate(self):
        if importlib.util.find_spec("accelerate") is None:
            self.skipTest("SKIPPED: accelerate is not installed")
        said = self.said("""
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration
a = Accelerator(cpu=True, project_config=ProjectConfiguration(project_dir='p', automatic_checkpoint_naming=True))
n, o = a.prepare(net, optimizer)
train(x, y); a.save_state(); a.save_state()
b = Accelerator(cpu=True); b.prepare(nn.Linear(2, 2)); b.save_state('q'); b.save_model(net, 'm')
""", "by")
        self.assertEqual(said, [(state, name, "accelerate") for name in ("p/checkpoints/checkpoint_0", "p/checkpoints/checkpoint_1", "q")
                                for state in ("begin", "end")])

    def test_a_fake_of_deepspeed(self):
        """Not DeepSpeed: its module's and class's names, and the arguments of its save_checkpoint (0.14)."""
        said = self.said("""
for name in ('deepspeed', 'deepspeed/runtime'):
    os.mkdir(name); open(name + '/__init__.py', 'w').close()
open('deepspeed/runtime/engine.py', 'w').write('''
import os, torch
class DeepSpeedEngine:
    global_steps = 7
    def save_checkpoint(self, save_dir, tag=None, client_state={}, save_latest=True, exclude_frozen_parameters=False):
        os.makedirs(save_dir, exist_ok=True)
        torch.save({}, os.path.join(save_dir, "part"))
        if tag == "bad": raise OSError(28, "No space left on device")
''')
sys.path.insert(0, os.getcwd())
from deepspeed.runtime.engine import DeepSpeedEngine
import importlib
engine = DeepSpeedEngine(); engine.save_checkpoint('z'); engine.save_checkpoint('z', tag='best')
importlib.reload(sys.modules['deepspeed.runtime.engine']).DeepSpeedEngine().save_checkpoint('z', 'again')
try: engine.save_checkpoint('z', 'bad')
except OSError: pass
""", "by")
        self.assertEqual(said, [("begin", "z/global_step7", "deepspeed"), ("end", "z/global_step7", "deepspeed"),
                                ("begin", "z/best", "deepspeed"), ("end", "z/best", "deepspeed"),
                                ("begin", "z/again", "deepspeed"), ("end", "z/again", "deepspeed"),
                                ("begin", "z/bad", "deepspeed"), ("failed", "z/bad", "deepspeed")])

    def test_a_part_that_fails_fails_the_whole(self):
        """Also where a framework catches it: not accelerate, a class with the name of its module."""
        said = self.said("""
os.makedirs('accelerate'); open('accelerate/__init__.py', 'w').close()
open('accelerate/accelerator.py', 'w').write('''
import torch
class P: automatic_checkpoint_naming = False
class Accelerator:
    project_configuration = P
    def save_state(self, output_dir):
        try: torch.save(torch.ones(99), "%s")
        except Exception: pass
''')
sys.path.insert(0, os.getcwd())
from accelerate.accelerator import Accelerator
Accelerator().save_state('s')
""" % FULL, "by")
        self.assertEqual(said, [("begin", "s", "accelerate"), ("failed", "s", "accelerate")])


if __name__ == "__main__":
    unittest.main()
