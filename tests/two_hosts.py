"""Plans over two hosts: python two_hosts.py REWRIGHT [--mpirun MPIRUN]

The hosts are network namespaces, each with a host name of its own, joined by a virtual cable on which MPI sends TCP. Needs root (and
`ip`), and that root may make namespaces: else it says so and is skipped. What it makes has this process's number in its name, and is
removed at the end.
"""

import argparse
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

import training

ARGUMENTS = None
SKIPPED = 77  # for CTest

# Starts what mpirun has for another host in its namespace, in place of ssh.
AGENT = """#!/bin/sh
host=$1
shift
exec ip netns exec {prefix}${{host##*.}} unshare --uts sh -c 'hostname "$0" && exec sh -c "$1"' {prefix}${{host##*.}} "$*"
"""


class Hosts:
    """Two namespaces, with the addresses 10.213.77.1 and 10.213.77.2."""

    def __init__(self, folder):
        self.prefix = f"rw{os.getpid()}h"
        self.addresses = ["10.213.77.1", "10.213.77.2"]
        self.names = [f"{self.prefix}{n}" for n in (1, 2)]
        cables = [f"rw{os.getpid()}c{n}" for n in (1, 2)]
        try:
            for name in self.names:
                self.ip("netns", "add", name)
            self.ip("link", "add", cables[0], "type", "veth", "peer", "name", cables[1])
            for name, cable, address in zip(self.names, cables, self.addresses):
                self.ip("link", "set", cable, "netns", name)
                self.ip("-n", name, "link", "set", cable, "name", "cable0")
                self.ip("-n", name, "address", "add", f"{address}/24", "dev", "cable0")
                for link in ("lo", "cable0"):
                    self.ip("-n", name, "link", "set", link, "up")
        except Exception:
            self.remove()
            raise
        self.agent = os.path.join(folder, "agent")
        with open(self.agent, "w", encoding="utf-8") as file:
            file.write(AGENT.format(prefix=self.prefix))
        os.chmod(self.agent, stat.S_IRWXU)
        self.hostfile = os.path.join(folder, "hosts")
        with open(self.hostfile, "w", encoding="utf-8") as file:
            file.write("".join(f"{address} slots=2\n" for address in self.addresses))

    @staticmethod
    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)

    def remove(self):
        for name in self.names:  # with their ends of the cable
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def mpirun(self, processes, *command):
        """The first host starts them; the first two run on it."""
        tcp = ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "cable0", "--mca", "oob_tcp_if_include", "cable0"]
        launch = [ARGUMENTS.mpirun, "-q", "--allow-run-as-root", "--mca", "plm_rsh_agent", self.agent, *tcp, "--hostfile", self.hostfile]
        launch += ["--map-by", "slot", "-n", str(processes), *map(str, command)]
        first = ["ip", "netns", "exec", self.names[0], "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.names[0]]
        return subprocess.run([*first, *launch], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, env=training.ENVIRONMENT)

    def bytes_sent(self):
        shown = subprocess.run(["ip", "-n", self.names[0], "-s", "-j", "link", "show", "cable0"], check=True, capture_output=True, text=True)
        return json.loads(shown.stdout)[0]["stats64"]["tx"]["bytes"]


class TwoHosts(training.Fixture):
    def setUp(self):
        super().setUp()
        self.hosts = Hosts(str(self.folder))
        self.addCleanup(self.hosts.remove)

    def losses(self, *options, processes=1):
        metrics = self.folder / "metrics"
        metrics.unlink(missing_ok=True)
        command = self.command("out.onnx", "--epochs", "2", "--metrics", str(metrics), *options)
        if processes > 1:
            result = self.hosts.mpirun(processes, *command)
        else:
            result = subprocess.run(command, capture_output=True, text=True, timeout=300, env=training.ENVIRONMENT, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]

    def require_close(self, many, one, what):
        self.assertEqual(len(many), len(one), what)
        for a, b in zip(one, many):
            self.assertLessEqual(abs(a - b), 1e-5 * abs(a), what)

    def test_two_hosts_train_as_one_process(self):
        one = self.losses()
        devices = {"count": 4, "per_node": 2, "operations_per_second": 1e9, "bytes_per_second": 1e9, "memory": 16e9}
        link = {"latency": 1e-7, "bytes_per_second": 1e10, "shape": "switch"}
        machine = self.folder / "machine.json"
        machine.write_text(json.dumps({"devices": devices, "links": {"node": link, "cluster": link}}))
        plan = str(self.folder / "a.plan")
        for strategy in ("tensor", "data+tensor", "data+data"):
            made = [ARGUMENTS.rewright, "plan", self.folder / "model.onnx", "--machine", machine, "--batch", "12", "--strategy", strategy]
            subprocess.run([*map(str, made), "-o", plan, "--quiet"], check=True, timeout=300)
            before = self.hosts.bytes_sent()
            self.require_close(self.losses("--plan", plan, processes=4), one, strategy)
            self.assertGreater(self.hosts.bytes_sent(), before + 10000, "nothing went over the cable")

    def test_the_links_between_hosts_are_measured(self):
        machine = self.folder / "machine.json"
        result = self.hosts.mpirun(4, ARGUMENTS.rewright, "profile", "--links", "-o", machine, "--threads", "1", "--quiet")
        self.assertEqual(result.returncode, 0, result.stderr)
        devices = json.loads(machine.read_text())["devices"]
        self.assertEqual((devices["count"], devices["per_node"]), (4, 2))


def may_make_hosts():
    """Containers may keep root from it."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            Hosts(folder).remove()
        return True
    except (OSError, subprocess.CalledProcessError):
        return False


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rewright")
    parser.add_argument("--mpirun", default="mpirun")
    ARGUMENTS, rest = parser.parse_known_args()
    training.ARGUMENTS = ARGUMENTS
    if os.geteuid() != 0 or not shutil.which("ip") or not may_make_hosts():
        print("two_hosts: needs root and ip, to make two hosts of network namespaces")
        sys.exit(SKIPPED)
    unittest.main(argv=["two_hosts.py", *rest])
