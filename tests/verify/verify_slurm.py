#!/usr/bin/env python3
"""A Slurm of one machine, started here and stopped again, asks `steelyard gate` about every job it is given.

verify_slurm.py --binary build/release/steelyard            (make verify-slurm)

Real daemons on loopback (munged, slurmctld, slurmd; Debian: munge slurmctld slurmd slurm-client), everything they
write in a temporary folder, ports of their own, the user who calls: nothing of an installed Slurm is touched.
The node claims eight H100 that it does not have, so `accelerate` is a stand-in that notes how it was called.
"""

import argparse
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol")
SECONDS = 60

SLURM_CONF = """\
ClusterName=steelyard
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobSubmitPlugins=lua
JobCompType=jobcomp/none
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={processors} Gres=gpu:h100:8 State=UNKNOWN
PartitionName=train Nodes={host} Default=YES MaxTime=INFINITE State=UP
PartitionName=small Nodes={host} MaxTime=INFINITE State=UP
"""


class Failure(Exception):
    pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Slurm:
    """The daemons, from their first configuration file to the signal that ends them."""

    def __init__(self, folder, binary):
        self.folder = folder
        self.environment = dict(os.environ, SLURM_CONF=str(folder / "slurm.conf"), STEELYARD=str(binary),
                                STEELYARD_POLICY=str(folder / "steelyard.toml"),
                                PATH=f"{folder / 'bin'}:{os.environ['PATH']}:/usr/sbin:/sbin")
        self.daemons = []

    def write(self, name, text, mode=0o644):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def configure(self):
        for name in ("state", "spool", "bin", "jobs"):
            (self.folder / name).mkdir(mode=0o755)
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o600)
        host = socket.gethostname().split(".")[0]
        self.write("slurm.conf", SLURM_CONF.format(
            host=host, folder=self.folder, user=pwd.getpwuid(os.getuid()).pw_name, controller_port=free_port(),
            node_port=free_port(), processors=self.processors()))
        # A device file that exists, for each: Slurm counts files.
        self.write("gres.conf", "Name=gpu Type=h100 File=/dev/tty[0-7]\n" if pathlib.Path("/dev/tty7").exists()
                   else "Name=gpu Type=h100 Count=8\n")
        self.write("cgroup.conf", "CgroupAutomount=no\n")
        self.write("steelyard.toml", 'refuse = "does-not-fit"\n[partition.train]\ndevice = "h100-sxm-80gb"\n'
                   '[partition.small]\ndevice = "t4"\n')
        self.write("bin/accelerate", f'#!/bin/sh\necho "$@" > {self.folder}/jobs/launched.$SLURM_JOB_ID\n', 0o755)

    def processors(self):
        # What slurmd itself counts: a node that has fewer than it claims is drained.
        said = subprocess.run(["slurmd", "-C"], capture_output=True, text=True, env=self.environment).stdout
        for word in said.split():
            if word.startswith("CPUs="):
                return int(word[5:])
        return os.cpu_count()

    def start(self):
        self.daemon("munged", "--foreground", "--force", f"--key-file={self.folder}/munge.key",
                    f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munge.pid",
                    f"--log-file={self.folder}/munge.log", f"--seed-file={self.folder}/munge.seed")
        self.until("munge answers", lambda: (self.folder / "munge.socket").exists())
        self.daemon("slurmctld", "-D", "-i")
        self.until("slurmctld answers", lambda: self.call("scontrol", "ping")[1].find("is UP") >= 0)
        self.daemon("slurmd", "-D")
        self.until("the node is idle", lambda: "IDLE" in self.call("scontrol", "show", "nodes")[1])

    def daemon(self, *command):
        output = open(self.folder / f"{command[0]}.output", "wb")
        self.daemons.append(subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=self.environment,
                                             cwd=self.folder, start_new_session=True))

    def until(self, what, holds):
        end = time.monotonic() + SECONDS
        while not holds():
            for daemon in self.daemons:
                if daemon.poll() is not None:
                    raise Failure(f"{daemon.args[0]} ended\n{self.logs()}")
            if time.monotonic() > end:
                raise Failure(f"not within {SECONDS} s: {what}\n{self.logs()}")
            time.sleep(0.1)

    def logs(self):
        text = ""
        for path in sorted([*self.folder.glob("*.log"), *self.folder.glob("*.output")]):
            text += f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-15:]) + "\n"
        return text

    def call(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment, cwd=self.folder / "jobs",
                              timeout=SECONDS)
        return done.returncode, done.stdout, done.stderr

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()


def job_script(binary, *words):
    done = subprocess.run([binary, "export", "slurm", *words, "--on", "8xh100-sxm-80gb", "--sequence-length", "4096"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(done.stderr)
    return done.stdout


class Check:
    """One job that is submitted, and what Slurm must say and do."""

    def __init__(self, slurm):
        self.slurm, self.failed = slurm, 0

    def job(self, name, script, *options, refused=None, runs=True):
        path = self.slurm.folder / "jobs" / f"{name.replace(' ', '_')}.sbatch"
        path.write_text(script)
        status, said, complained = self.slurm.call("sbatch", *options, path.name)
        print(f"$ sbatch {' '.join([*options, path.name])}")
        for line in (said + complained).splitlines():
            print(f"  {line}")
        problem = ""
        if refused is not None:
            if status == 0 or refused not in complained:
                problem = f'must be refused, saying "{refused}"'
        elif status != 0:
            problem = "must be let through"
        elif runs:
            number = said.split()[-1]
            problem = self.ran(number)
        self.failed += bool(problem)
        print(f"  {'ok' if not problem else 'WRONG: ' + problem}: {name}\n")

    def ran(self, number):
        def ended():
            shown = self.slurm.call("scontrol", "show", "job", number)[1]
            return any(f"JobState={state}" in shown for state in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"))

        try:
            self.slurm.until(f"job {number} ends", ended)
        except Failure as failure:
            return str(failure)
        shown = self.slurm.call("scontrol", "show", "job", number)[1]
        for line in shown.splitlines():
            if line.strip().startswith(("JobState=", "Comment=")):
                print(f"  {line.strip()}")
        called = self.slurm.folder / "jobs" / f"launched.{number}"
        if "JobState=COMPLETED" not in shown or not called.exists():
            output = self.slurm.folder / "jobs" / f"slurm-{number}.out"
            return "it did not run: " + (output.read_text() if output.exists() else shown)
        print(f"  it ran: accelerate {called.read_text()[:60].strip()} ...")
        return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    binary = pathlib.Path(parser.parse_args().binary).resolve()
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [name for name in DAEMONS if shutil.which(name) is None]
    if missing:
        print(f"not installed: {', '.join(missing)} (Debian: munge slurmctld slurmd slurm-client)")
        return 1
    # Not below a folder that only its owner may enter: munge refuses its socket there.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="steelyard-slurm-"))
    folder.chmod(0o755)
    slurm = Slurm(folder, binary)
    try:
        slurm.configure()
        plugin = subprocess.run([binary, "gate", "--slurm-plugin"], capture_output=True, text=True, check=True).stdout
        slurm.write("job_submit.lua", plugin)
        slurm.start()
        print(f"{slurm.call('slurmctld', '-V')[1].strip()}, job_submit.lua as `gate --slurm-plugin` prints it\n")
        check = Check(slurm)
        fits = job_script(binary, "llama-3.1-8b", "--engine", "fsdp2")
        check.job("a job that fits runs", fits)
        large = job_script(binary, "llama-3.1-70b", "--engine", "ddp", "--precision", "bf16-autocast")
        check.job("a job that does not fit is refused", large, refused="refused: does not fit")
        check.job("its user may insist", large, "--comment=steelyard:skip")
        check.job("a job that trains nothing is none of ours", "#!/bin/bash\n#SBATCH --gpus-per-node=1\nhostname\n",
                  runs=False)
        # Files of a job lie where it was submitted, under names without a folder.
        (folder / "jobs/conf").mkdir()
        for name, length in (("short", 2048), ("long", 65536)):
            slurm.write(f"jobs/conf/{name}.json", '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}, '
                                                  '"bf16": {"enabled": true}}')
            script = ("#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gpus-per-node=8\n"
                      f"deepspeed train.py --deepspeed conf/{name}.json --bf16 True --model_max_length {length} "
                      "--model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size 1\n")
            check.job(f"relative paths, {name}", script, runs=False, refused=None if name == "short" else "does not fit")
            if name == "short":
                check.job("GPUs of the command line count", script, "--gpus-per-node=1", refused="does not fit")
                check.job("the partition of the command line counts", script, "--partition=small", refused="does not fit")
        print("all jobs as they should be" if check.failed == 0 else f"{check.failed} wrong\n{slurm.logs()}")
        return 1 if check.failed else 0
    except Failure as failure:
        print(failure)
        return 1
    finally:
        slurm.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
