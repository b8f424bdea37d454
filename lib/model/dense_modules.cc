// Products of one row on the host.
#include "lib/model/dense_modules.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "kernels/error.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/model/layers/classifier_head.h"
#include "lib/model/layers/scratch.h"
#include "lib/model/weights/checkpoint_source.h"
#include "lib/model/weights/dummy_source.h"
#include "lib/model/weights/meta_weight_source.h"

namespace nvllm {
namespace {

void add_module(const ModelLoadOptions& options, const DenseModule& module, CheckpointUse use,
                ThreadPool& threads, DenseModules& modules) {
    const std::filesystem::path folder = options.directory / module.folder;
    const bool is_dummy = options.load_format == LoadFormat::dummy;
    if (is_dummy && use == CheckpointUse::values) {
        DummySource source(options.seed, DType::f32, threads);
        modules.add(module, source);
    } else if (is_dummy || (use == CheckpointUse::headers && !Checkpoint::is_present(folder))) {
        MetaWeightSource source(DType::f32, DType::f32, threads);
        modules.add(module, source);
    } else {
        CheckpointSource source(Checkpoint::open(folder), DType::f32, threads, use);
        modules.add(module, source);
    }
}

DenseModules modules_of(const ModelLoadOptions& options, int64_t hidden_size, CheckpointUse use,
                        ThreadPool& threads) {
    const PoolingConfig pooling = read_pooling_config(options.directory);
    DenseModules modules;
    if (pooling.fault) return modules;
    if (!pooling.dense.empty() && pooling.dense.front().in != hidden_size) {
        const DenseModule& first = pooling.dense.front();
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: in_features is {}, but the model's vectors have {} values",
                                (options.directory / first.folder / "config.json").string(),
                                first.in, hidden_size));
    }
    for (const DenseModule& module : pooling.dense) {
        add_module(options, module, use, threads, modules);
    }
    return modules;
}

}  // namespace

void DenseModules::add(const DenseModule& module, WeightSource& source) {
    parts_.push_back(
        {load_head_linear(source, "linear", module.in, module.out, module.bias), module.function});
    source.finish();
}

void DenseModules::apply(const Context& context, std::vector<float>& vector) const {
    if (parts_.empty()) return;
    Context host;
    host.scratch = &host_scratch(context);
    host.threads = context.threads;
    const ScratchArena::Scope scope(*host.scratch);
    for (const Part& part : parts_) {
        std::vector<float> out(static_cast<size_t>(part.linear.out()));
        const TensorView from(vector.data(), DType::f32, {1, std::ssize(vector)});
        const TensorView to(out.data(), DType::f32, {1, std::ssize(out)});
        part.linear.apply(host, from, ops::MatmulOutput::overwrite, to);
        if (part.function == DenseModule::Function::tanh) {
            for (float& value : out) value = std::tanh(value);
        }
        vector = std::move(out);
    }
}

size_t DenseModules::bytes() const {
    size_t bytes = 0;
    for (const Part& part : parts_) bytes += part.linear.bytes();
    return bytes;
}

DenseModules load_dense_modules(const ModelLoadOptions& options, int64_t hidden_size) {
    return modules_of(options, hidden_size, CheckpointUse::values, *options.threads);
}

size_t dense_module_bytes(const ModelLoadOptions& options, int64_t hidden_size) {
    ThreadPool no_threads(1);
    return modules_of(options, hidden_size, CheckpointUse::headers, no_threads).bytes();
}

}  // namespace nvllm
