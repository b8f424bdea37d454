// Names, help and ranges of the options that say where and how a model is computed.
#include "lib/engine/options/part_options.h"

namespace nvllm {

std::optional<CpuMask> OptionType<CpuMask>::parse(const OptionField&, const std::string& text) {
    std::optional<CpuList> cpus = parse_cpu_mask(text);
    if (!cpus) return std::nullopt;
    return CpuMask{std::move(*cpus)};
}

// A number alone would be read as a mask.
std::string OptionType<CpuMask>::format(const OptionField&, const CpuMask& value) {
    const std::string text = format_cpu_list(value.cpus);
    return value.cpus.size() == 1 ? text + "-" + text : text;
}

namespace {

void add_device_options(OptionList<ComputeOptions>& list) {
    list.add("device", &ComputeOptions::device,
             "Where to compute: cpu, cuda for the first GPU that can be used, cuda:1 for that one, "
             "or another module's name; auto: a GPU where there is one, else the CPU.",
             value_name("DEVICE"), words({"auto", "cpu", "cuda"}));
    list.add("batch-invariant", nested(&ComputeOptions::worker, &WorkerConfig::batch_invariant),
             "On a GPU, take products and attention in one order whatever is computed beside them, "
             "as the CPU always does: the same answers at any load, somewhat slower.");
    list.add("cuda-graph", &ComputeOptions::cuda_graph,
             "On a GPU, run steps in which every answer gets one token as graphs: one call a step "
             "instead of hundreds.");
    list.add("enforce-eager", &ComputeOptions::enforce_eager, "The same as --no-cuda-graph.");
    list.add("max-cuda-graph-size", &ComputeOptions::max_cuda_graph_size,
             "Answers in a step that runs as a graph, at most.",
             alias("max-cudagraph-capture-size"), range(1, 4096));
}

void add_cpu_options(OptionList<ComputeOptions>& list) {
    list.add("threads", nested(&ComputeOptions::placement, &PlacementOptions::num_threads),
             "Compute threads.", short_name('t'), range(0, 1024),
             default_text("one for each physical core, or each processor of --cpu-mask"));
    list.add("cpu-mask", &ComputeOptions::cpu_mask,
             "Bind the compute threads to these logical processors, one to each: a hexadecimal "
             "mask such as f, or a list such as 0-3,8 (of one: 5-5).",
             short_name('C'), value_name("MASK|LIST"),
             form("a hexadecimal mask such as f, or a list such as 0-3,8"), default_text("none"));
    list.add_choice<NumaMode>(
        "numa", nested(&ComputeOptions::placement, &PlacementOptions::numa),
        "Where there are several memory nodes: distribute threads evenly over them and interleave "
        "the memory of cache and scratch; isolate: the node in which the program starts, alone. "
        "Weights that are used in place stay where the page cache has them.",
        {{"auto", NumaMode::automatic},
         {"off", NumaMode::off},
         {"distribute", NumaMode::distribute},
         {"isolate", NumaMode::isolate}},
        default_text("distribute where processors of several nodes may be used"));
}

void add_expert_options(OptionList<ComputeOptions>& list) {
    list.add("record-expert-load",
             nested(&ComputeOptions::parallel, &ParallelOptions::record_expert_load),
             "Write how many tokens chose each expert of each layer, for --expert-load: a JSON "
             "file, which is whole after every second.",
             value_name("FILE"), default_text("none"));
    list.add("expert-load", nested(&ComputeOptions::parallel, &ParallelOptions::expert_load),
             "Share out experts so that ranks have about as many tokens to compute, by a file of "
             "--record-expert-load. Without it each rank has neighbours.",
             value_name("FILE"), default_text("none"));
    list.add("num-redundant-experts",
             nested(&ComputeOptions::parallel, &ParallelOptions::redundant_experts),
             "Copies of the experts with the most tokens, of each layer, with "
             "--enable-expert-parallel. Ranks that have the same expert take turns.",
             range(0, 65536));
    list.add("expert-capacity-factor",
             nested(&ComputeOptions::parallel, &ParallelOptions::expert_capacity_factor),
             "Let an expert take at most so many times its even share of a step's tokens, and drop "
             "what is beyond: answers then depend on what else is computed. 0: drop nothing.",
             value_name("FACTOR"), range(0.0, 1e6));
}

void add_parallel_options(OptionList<ComputeOptions>& list) {
    list.add("tensor-parallel-size", nested(&ComputeOptions::parallel, &ParallelOptions::tensor),
             "Ranks that share out each layer: heads, channels and the vocabulary. What cannot be "
             "divided, every rank has.",
             range(1, 1024));
    list.add("pipeline-parallel-size",
             nested(&ComputeOptions::parallel, &ParallelOptions::pipeline),
             "Stages of layers, which hand hidden states on; as many steps are computed at once.",
             range(1, 1024));
    list.add("data-parallel-size", nested(&ComputeOptions::parallel, &ParallelOptions::data),
             "Replicas of the model, each with a scheduler, a cache and ranks of its own. On the "
             "CPU they share out the processors and the memory; of other devices each takes the "
             "next.",
             range(1, 1024));
    list.add_choice<ReplicaRouting>(
        "data-parallel-routing", nested(&ComputeOptions::parallel, &ParallelOptions::routing),
        "Which replica takes a request: the one that has the least to compute before its first "
        "token (prefix_aware: what of the prompt it has cached, and what it has to do), the one "
        "with the fewest answers under way (least_loaded), or each in turn (round_robin).",
        {{"prefix_aware", ReplicaRouting::prefix_aware},
         {"least_loaded", ReplicaRouting::least_loaded},
         {"round_robin", ReplicaRouting::round_robin}});
    list.add("enable-expert-parallel", nested(&ComputeOptions::parallel, &ParallelOptions::experts),
             "Of layers with experts, give each of the ranks that share out a layer experts of its "
             "own instead of a part of every one; tokens go to them. With --data-parallel-size "
             "these are the ranks of all replicas.");
    list.add_choice<RankBackend>(
        "distributed-executor-backend",
        nested(&ComputeOptions::parallel, &ParallelOptions::backend),
        "What ranks are: threads of one process, whose data does not leave its memory; processes "
        "that --rank-launcher starts, whose data MPI carries (mpi); or such processes that someone "
        "else starts (external: nvllm-worker join HOST:PORT). auto: threads on the CPU.",
        {{"auto", RankBackend::automatic},
         {"threads", RankBackend::threads},
         {"mpi", RankBackend::mpi},
         {"external", RankBackend::external}});
    list.add("rank-launcher", nested(&ComputeOptions::parallel, &ParallelOptions::rank_launcher),
             "What starts ranks of the backend mpi, such as \"mpirun --hostfile hosts\" or \"srun "
             "--mpi=pmix\"; -n and the number of ranks are added. When a rank is lost, it starts "
             "all anew.",
             value_name("COMMAND"));
    list.add("rank-address", nested(&ComputeOptions::parallel, &ParallelOptions::rank_address),
             "Where ranks in other processes find this one; those of further replicas at the next "
             "ports. They say the secret that is in "
             "NVLLM_RANK_SECRET; ranks that this program starts are given one.",
             value_name("HOST:PORT"), default_text("127.0.0.1 and any port"));
}

void add_isolation_options(OptionList<ComputeOptions>& list) {
    list.add_choice<Isolation>(
        "isolation", &ComputeOptions::isolation,
        "process: compute in a process of its own; when it is lost it starts again, and "
        "every answer goes on as if nothing had been.",
        {{"thread", Isolation::thread}, {"process", Isolation::process}});
    list.add("watchdog-timeout", &ComputeOptions::watchdog_timeout_s,
             "Seconds that a step may take before its process is killed and started again; 0: no "
             "limit.",
             value_name("SECONDS"), range(0.0, 86400.0));
}

}  // namespace

OptionList<ComputeOptions> compute_options() {
    OptionList<ComputeOptions> list("engine");
    list.group("Compute");
    add_device_options(list);
    add_cpu_options(list);
    add_parallel_options(list);
    add_expert_options(list);
    add_isolation_options(list);
    return list;
}

}  // namespace nvllm
