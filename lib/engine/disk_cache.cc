// What a model's keys and values depend on.
#include "lib/engine/disk_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "kernels/cpu/dispatch/isa.h"
#include "lib/base/digest.h"
#include "lib/base/file.h"
#include "lib/execute/tiers/block_layout.h"
#include "lib/model/layers/rope_scaling.h"

namespace nvllm {
namespace {

namespace fs = std::filesystem;

// Of a change of what is kept, or of how it is computed.
constexpr int kVersion = 1;
constexpr size_t kSampleBytes = 4096;
constexpr size_t kSamples = 64;

// Of files that are small all bytes, of others samples at equal distances, the ends among them.
uint64_t sampled_digest(const MappedFile& file) {
    const std::span<const std::byte> bytes = file.bytes();
    if (bytes.size() <= kSamples * kSampleBytes) return digest(bytes.data(), bytes.size());
    uint64_t sum = digest(nullptr, 0);
    for (size_t i = 0; i < kSamples; ++i) {
        const size_t first = (bytes.size() - kSampleBytes) / (kSamples - 1) * i;
        sum = fast_digest(bytes.data() + first, kSampleBytes, sum);
    }
    return sum;
}

bool is_of_model(const fs::path& path) {
    const fs::path suffix = path.extension();
    return suffix == ".safetensors" || suffix == ".gguf" || suffix == ".json";
}

std::string describe_file(const fs::path& path) {
    const MappedFile file(path);
    const auto changed = std::chrono::file_clock::to_sys(fs::last_write_time(path));
    return fmt::format("{} {} bytes, changed {}, digest {:016x}\n", path.filename().string(),
                       file.size(), changed.time_since_epoch().count(), sampled_digest(file));
}

std::string describe_files(const fs::path& model) {
    if (!fs::is_directory(model)) return describe_file(model);
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(model)) {
        if (entry.is_regular_file() && is_of_model(entry.path())) paths.push_back(entry.path());
    }
    std::ranges::sort(paths);
    std::string text;
    for (const fs::path& path : paths) text += describe_file(path);
    return text;
}

std::string describe_group(const CacheLayout& group) {
    return fmt::format("kind {}, {} layers from {}, {} heads of {}, window {}, states of {}\n",
                       static_cast<int>(group.kind), group.layers.size(),
                       group.layers.empty() ? 0 : group.layers.front(), group.kv_heads,
                       group.head_dim, group.window, group.state_bytes);
}

}  // namespace

std::string cache_identity(const EngineMetadata& metadata, const MemoryPlan& plan) {
    const ModelMetadata& model = metadata.model;
    const EngineConfig& config = metadata.config;
    std::string text = fmt::format("prefix cache {}\n", kVersion);
    text += describe_files(metadata.options.directory);
    text += fmt::format("load format {}, products {}, activations {}\n", config.model.load_format,
                        dtype_name(model.compute_type), dtype_name(model.activations));
    text += fmt::format("blocks of {} tokens, {}\n", plan.block_size, dtype_name(plan.kv_dtype));
    for (const CacheLayout& group : plan.groups) text += describe_group(group);
    text += fmt::format(
        "original context {}, expert capacity {}\n",
        original_context(model.config.rope, model.config.max_positions, plan.max_model_len),
        config.compute.parallel.expert_capacity_factor);
    const ChosenDevice& device = metadata.device;
    text += device.is_cpu() ? fmt::format("cpu {}", cpu::isa_name(cpu::current_isa()))
                            : fmt::format("{}", device.product);
    return text;
}

std::shared_ptr<DiskStore> open_disk_store(const EngineMetadata& metadata, const MemoryPlan& plan) {
    const KvCacheOptions& options = metadata.config.kv_cache;
    if (options.prefix_cache_dir.empty()) return nullptr;
    return std::make_shared<DiskStore>(DiskStoreConfig{
        options.prefix_cache_dir, cache_identity(metadata, plan), options.prefix_cache_bytes});
}

std::vector<DiskBlock> disk_blocks(const MemoryPlan& plan) {
    std::vector<DiskBlock> blocks;
    for (const CacheLayout& group : plan.groups) {
        const BlockFileLayout layout =
            block_file_layout(group, plan.block_size, plan.kv_dtype, whole_share(group));
        blocks.push_back({layout.bytes(), layout.bytes() - layout.value_bytes});
    }
    return blocks;
}

}  // namespace nvllm
