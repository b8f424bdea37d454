"""Collectives of the MPI module between processes, at 1, 2 and 4 ranks."""
import os
import shutil
import subprocess
import sys
import unittest

BIN = os.environ["NVLLM_BIN"]
MODULE = os.path.join(BIN, "..", "lib", "libnanovllm_mpi.so")
RANKS = os.path.join(BIN, "nvllm_test_ranks")
# Open MPI wants to be told that it may run as root and with more ranks than cores; MPICH ignores this. It ends without freeing what
# its plug-ins allocated, which are unloaded by then: no suppression could name them.
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
                   ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")


def find_mpirun():
    """The mpirun of the library that the module opens; None: there is none."""
    version = subprocess.run([RANKS, MODULE, "look"], capture_output=True, text=True, check=True).stdout
    if not version:
        return None
    own = "mpirun.openmpi" if version.startswith("Open MPI") else "mpirun.mpich"
    return shutil.which(own) or shutil.which("mpirun")


MPIRUN = find_mpirun()


class Collectives(unittest.TestCase):
    def test_operations_between_processes(self):
        for num_ranks in (1, 2, 4):
            with self.subTest(num_ranks=num_ranks):
                run = subprocess.run([MPIRUN, "-n", str(num_ranks), RANKS, MODULE], env=ENVIRONMENT,
                                     capture_output=True, text=True, timeout=120)
                self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
                for rank in range(num_ranks):
                    self.assertIn(f"rank {rank} of {num_ranks}: ok", run.stdout)


if __name__ == "__main__":
    if MPIRUN is None:
        print("LEFT OUT: no MPI is installed here; the MPI module was not run between processes")
        sys.exit(0)
    unittest.main()
