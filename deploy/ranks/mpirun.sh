#!/usr/bin/env bash
# A model on the hosts of a file: four ranks that share out each layer, in two stages. Ranks and their data go over the network NETWORK;
# this host's address in it is ADDRESS. nvllm-worker and the model lie at the same paths on all hosts.
set -euo pipefail
: "${MODEL:?a model}" "${HOSTS:?a file of hosts, one a line, such as node1 slots=4}" "${ADDRESS:?of this host}" "${NETWORK:?such as 10.0.0.0/24}"

exec nvllm-serve --model "$MODEL" --tensor-parallel-size 4 --pipeline-parallel-size 2 \
    --distributed-executor-backend mpi --watchdog-timeout 60 --rank-address "$ADDRESS:0" \
    --rank-launcher "mpirun --hostfile $HOSTS --mca btl self,vader,tcp --mca btl_tcp_if_include $NETWORK --mca oob_tcp_if_include $NETWORK"
