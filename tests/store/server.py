# SPDX-License-Identifier: Apache-2.0
"""A real PostgreSQL in a scratch folder, as a user without rights: Debian's, or the one whose programs stand in PATH."""
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PASSWORD = 'a secret'  # in an address it stands as a%20secret


def programs():
    """The folder of initdb and postgres; None: there is no server here."""
    found = shutil.which('initdb')
    newest = sorted(glob.glob('/usr/lib/postgresql/*/bin/initdb'), key=lambda p: int(p.split('/')[4]) if p.split('/')[4].isdigit() else 0)
    path = os.path.realpath(found) if found else newest[-1] if newest else None
    return os.path.dirname(path) if path else None


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, settings=()):
        self.bin, self.port, self.settings = programs(), free_port(), list(settings)
        self.folder = tempfile.mkdtemp(prefix='batchfit-postgres-')
        self.data, self.process = os.path.join(self.folder, 'data'), None
        # The server refuses to run as root.
        self.user = pwd.getpwnam('nobody') if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        secret = os.path.join(self.folder, 'password')
        with open(secret, 'w', encoding='utf-8') as f:
            f.write(PASSWORD + '\n')
        os.chmod(secret, 0o644)
        self.run('initdb', '-D', self.data, '-U', 'owner', '--pwfile', secret, '-A', 'scram-sha-256', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync')

    def give_up_rights(self):
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(self.user.pw_gid)
            os.setuid(self.user.pw_uid)

    def run(self, program, *words):
        subprocess.run([os.path.join(self.bin, program), *words], check=True, stdout=subprocess.DEVNULL, cwd=self.folder, preexec_fn=self.give_up_rights,
                       env={'PATH': os.environ['PATH'], 'LC_ALL': 'C.UTF-8'})

    def start(self):
        options = [f'-c{s}' for s in ('listen_addresses=127.0.0.1', f'port={self.port}', f'unix_socket_directories={self.folder}', 'logging_collector=off',
                                      *self.settings)]
        with open(os.path.join(self.folder, 'log'), 'ab') as log:
            self.process = subprocess.Popen([os.path.join(self.bin, 'postgres'), '-D', self.data, *options], stdout=log, stderr=log, cwd=self.folder,
                                            preexec_fn=self.give_up_rights, start_new_session=True)
        while subprocess.run([os.path.join(self.bin, 'pg_isready'), '-q', '-h', '127.0.0.1', '-p', str(self.port)], check=False).returncode:
            if self.process.poll() is not None:
                with open(os.path.join(self.folder, 'log'), encoding='utf-8') as log:
                    raise RuntimeError('PostgreSQL does not start: ' + log.read()[-2000:])
            time.sleep(0.05)

    def kill(self):
        """As a power loss would, for its processes: no word, no cleaning up."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        # Its children are in groups of their own; they end when they miss their parent, and until then the memory is theirs.
        while self.has_children():
            time.sleep(0.02)

    def has_children(self):
        return any(self.data.encode() in cwd for cwd in self.working_folders())

    @staticmethod
    def working_folders():
        for link in glob.glob('/proc/[0-9]*/cwd'):
            try:
                yield os.readlink(link).encode()
            except OSError:
                pass

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # a fast shutdown
            self.process.wait()

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, database='postgres', user='owner', password=PASSWORD):
        secret = ':' + password.replace(' ', '%20') if password else ''
        return f'postgresql://{user}{secret}@127.0.0.1:{self.port}/{database}'

    def sql(self, text, database='postgres'):
        done = subprocess.run([os.path.join(self.bin, 'psql'), '-qtAX', '-v', 'ON_ERROR_STOP=1', '-c', text, self.address(database)], check=True,
                              stdout=subprocess.PIPE, text=True)
        return done.stdout.strip()
