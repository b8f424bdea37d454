// Opening a model directory's weights: the single file, the index and its shards, and what to say
// when neither is there.
#include "lib/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "kernels/error.h"
#include "lib/base/json.h"
#include "lib/checkpoint/foreign_models.h"
#include "lib/checkpoint/quoted.h"

namespace nvllm {
namespace {

constexpr uint64_t kMaxIndexBytes = uint64_t{256} << 20;
constexpr size_t kMaxShards = 4096;
constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

// Which shard holds which tensor, as the index says.
using WeightMap = std::map<std::string, std::string>;

void check_shard_name(const std::string& shard, const std::string& index) {
    const bool plain = shard.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos &&
                       shard.ends_with(".safetensors") && shard.front() != '.';
    if (!plain) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: names the file {}; only plain names of .safetensors files in "
                                "the same folder are opened",
                                index, quoted_for_message(shard)));
    }
}

WeightMap read_weight_map(const std::filesystem::path& path) {
    const std::string index = path.string();
    const nlohmann::json document = parse_json(read_file(path, kMaxIndexBytes), index);
    const auto map = document.is_object() ? document.find("weight_map") : document.end();
    if (map == document.end() || !map->is_object() || map->empty()) {
        throw Error(ErrorKind::bad_data, index + ": has no \"weight_map\" object");
    }
    WeightMap weights;
    for (const auto& [tensor, shard] : map->items()) {
        if (!shard.is_string()) {
            throw Error(ErrorKind::bad_data, fmt::format("{}: the file of tensor {} is not a text",
                                                         index, quoted_for_message(tensor)));
        }
        check_shard_name(shard.get_ref<const std::string&>(), index);
        weights.emplace(tensor, shard.get<std::string>());
    }
    return weights;
}

std::string joined(const std::vector<std::string>& items, const char* separator) {
    constexpr size_t kShown = 12;
    const auto end = items.begin() + static_cast<std::ptrdiff_t>(std::min(items.size(), kShown));
    std::string text = fmt::format("{}", fmt::join(items.begin(), end, separator));
    if (items.size() > kShown) text += fmt::format(" and {} more", items.size() - kShown);
    return text;
}

// Names in the directory that end with one of `endings`.
std::vector<std::string> files_ending_with(const std::filesystem::path& directory,
                                           std::initializer_list<std::string_view> endings) {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& item : std::filesystem::directory_iterator(directory, ignored)) {
        const std::string name = item.path().filename().string();
        const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
        if (std::any_of(endings.begin(), endings.end(), ends)) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
}

[[noreturn]] void throw_no_weights(const std::filesystem::path& directory) {
    std::string message =
        fmt::format("{}: has neither {} nor {}", directory.string(), kSingleFile, kIndexFile);
    const auto others = files_ending_with(
        directory,
        {".gguf", ".bin", ".pt", ".pth", ".pkl", ".ckpt", ".onnx", ".h5", ".msgpack", ".tflite"});
    const auto loose = files_ending_with(directory, {".safetensors"});
    if (!loose.empty()) {
        message += fmt::format("; it has {}: download the index file too", joined(loose, ", "));
    } else if (!others.empty()) {
        message += fmt::format("; {}: {}", joined(others, ", "),
                               about_weight_file(directory / others.front()).value());
    }
    throw Error(ErrorKind::not_found, message);
}

void check_all_present(const std::filesystem::path& directory,
                       const std::set<std::string>& shards) {
    std::vector<std::string> missing;
    for (const std::string& shard : shards) {
        std::error_code ignored;
        if (!std::filesystem::exists(directory / shard, ignored)) missing.push_back(shard);
    }
    if (missing.empty()) return;
    throw Error(
        ErrorKind::not_found,
        fmt::format("{}: {} of {} weight files are missing: {}; download them", directory.string(),
                    missing.size(), shards.size(), joined(missing, ", ")));
}

// Opens every shard, so that one message tells all that are broken.
std::vector<std::shared_ptr<const SafetensorsFile>> open_shards(
    const std::filesystem::path& directory, const std::set<std::string>& shards) {
    std::vector<std::shared_ptr<const SafetensorsFile>> files;
    std::vector<std::string> faults;
    for (const std::string& shard : shards) {
        try {
            files.push_back(std::make_shared<const SafetensorsFile>(directory / shard));
        } catch (const Error& error) {
            if (error.kind() != ErrorKind::bad_data) throw;
            faults.push_back(error.what());
        }
    }
    if (faults.empty()) return files;
    if (faults.size() == 1) throw Error(ErrorKind::bad_data, faults.front());
    throw Error(ErrorKind::bad_data,
                fmt::format("{} of {} weight files are unusable:\n  {}", faults.size(),
                            shards.size(), joined(faults, "\n  ")));
}

}  // namespace

Checkpoint Checkpoint::open(const std::filesystem::path& directory) {
    Checkpoint checkpoint;
    checkpoint.directory_ = directory;
    std::error_code ignored;
    if (std::filesystem::exists(directory / kSingleFile, ignored)) {
        checkpoint.files_ = open_shards(directory, {kSingleFile});
        checkpoint.add_rows();
        return checkpoint;
    }
    if (!std::filesystem::exists(directory / kIndexFile, ignored)) throw_no_weights(directory);

    const WeightMap weights = read_weight_map(directory / kIndexFile);
    std::set<std::string> shards;
    for (const auto& [tensor, shard] : weights) shards.insert(shard);
    if (shards.size() > kMaxShards) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: names {} files, at most {} are opened",
                                (directory / kIndexFile).string(), shards.size(), kMaxShards));
    }
    check_all_present(directory, shards);
    checkpoint.files_ = open_shards(directory, shards);
    checkpoint.add_rows();
    checkpoint.check_index(weights);
    return checkpoint;
}

bool Checkpoint::is_present(const std::filesystem::path& directory) {
    std::error_code ignored;
    return std::filesystem::exists(directory / kSingleFile, ignored) ||
           std::filesystem::exists(directory / kIndexFile, ignored);
}

void Checkpoint::add_rows() {
    for (uint32_t file = 0; file < files_.size(); ++file) {
        for (const SafetensorsEntry& entry : files_[file]->entries()) {
            rows_.push_back({&entry, file});
        }
    }
    std::sort(rows_.begin(), rows_.end(),
              [](const Row& a, const Row& b) { return a.entry->name < b.entry->name; });
    const auto twin = std::adjacent_find(
        rows_.begin(), rows_.end(),
        [](const Row& a, const Row& b) { return a.entry->name == b.entry->name; });
    if (twin != rows_.end()) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: tensor {} is in two files", directory_.string(),
                                quoted_for_message(twin->entry->name)));
    }
}

void Checkpoint::check_index(const std::map<std::string, std::string>& weights) {
    for (const auto& [tensor, shard] : weights) {
        if (row(tensor) == nullptr) {
            absent_.emplace(tensor, shard);
        } else if (file_of(tensor) != (directory_ / shard).string()) {
            throw Error(
                ErrorKind::bad_data,
                fmt::format("{}: tensor {} should be in {}, but is not; the files do not "
                            "belong together",
                            (directory_ / kIndexFile).string(), quoted_for_message(tensor), shard));
        }
    }
}

const Checkpoint::Row* Checkpoint::row(std::string_view name) const {
    const auto found = std::lower_bound(
        rows_.begin(), rows_.end(), name,
        [](const Row& row, std::string_view wanted) { return row.entry->name < wanted; });
    return found != rows_.end() && found->entry->name == name ? &*found : nullptr;
}

std::optional<ConstTensorView> Checkpoint::find(std::string_view name) const {
    const Row* found = row(name);
    if (found == nullptr) return std::nullopt;
    return files_[found->file]->view(*found->entry);
}

std::optional<Tensor> Checkpoint::tensor(std::string_view name) const {
    const Row* found = row(name);
    if (found == nullptr) return std::nullopt;
    const std::shared_ptr<const SafetensorsFile>& file = files_[found->file];
    return Tensor::borrow(file->view(*found->entry), file);
}

std::shared_ptr<const SafetensorsFile> Checkpoint::file(std::string_view name) const {
    const Row* found = row(name);
    return found == nullptr ? nullptr : files_[found->file];
}

std::string Checkpoint::file_of(std::string_view name) const {
    const Row* found = row(name);
    return found == nullptr ? directory_.string() : files_[found->file]->path().string();
}

std::string Checkpoint::promised_file(std::string_view name) const {
    const auto found = absent_.find(name);
    return found == absent_.end() ? std::string() : found->second;
}

std::vector<std::string_view> Checkpoint::names() const {
    std::vector<std::string_view> names;
    names.reserve(rows_.size());
    for (const Row& row : rows_) names.push_back(row.entry->name);
    return names;
}

uint64_t Checkpoint::data_bytes() const {
    uint64_t bytes = 0;
    for (const Row& row : rows_) bytes += row.entry->end - row.entry->begin;
    return bytes;
}

void Checkpoint::prefetch() const {
    for (const auto& file : files_) {
        const std::span<const std::byte> bytes = file->bytes();
        // Advice only: where it is refused, pages are small and read when they are touched.
#ifdef MADV_HUGEPAGE
        ::madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), MADV_HUGEPAGE);
#endif
        ::madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), MADV_WILLNEED);
    }
}

}  // namespace nvllm
