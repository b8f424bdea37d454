"""Collectives of the MPI module between processes, at 1, 2 and 4 ranks."""
import os
import shutil
import subprocess
import sys
import unittest

BIN = os.environ["NVLLM_BIN"]
MODULE = os.path.join(BIN, "..", "lib", "libnanovllm_mpi.so")
RANKS = os.path.join(BIN, "nvllm_test_ranks")
# Open MPI wants to be told that it may run as root and with more ranks than cores; MPICH ignores this.
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")


class Collectives(unittest.TestCase):
    def test_operations_between_processes(self):
        for num_ranks in (1, 2, 4):
            with self.subTest(num_ranks=num_ranks):
                run = subprocess.run(["mpirun", "-n", str(num_ranks), RANKS, MODULE], env=ENVIRONMENT,
                                     capture_output=True, text=True, timeout=600)
                self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
                for rank in range(num_ranks):
                    self.assertIn(f"rank {rank} of {num_ranks}: ok", run.stdout)


if __name__ == "__main__":
    if shutil.which("mpirun") is None:
        print("LEFT OUT: no MPI is installed here (there is no mpirun); the MPI module was not run between processes")
        sys.exit(0)
    unittest.main()
