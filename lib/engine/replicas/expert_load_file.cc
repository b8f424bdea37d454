// JSON, replaced as a whole.
#include "lib/engine/replicas/expert_load_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/base/log.h"

namespace nvllm {
namespace {

constexpr const char* kSchema = "nanovllm.expert-load/1";
constexpr std::chrono::seconds kBetweenWrites{1};

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
    throw Error(ErrorKind::bad_data,
                fmt::format("{}: {}; --record-expert-load writes such files", file.string(), what));
}

std::vector<int64_t> counts_of(const std::filesystem::path& file, const std::string& block,
                               const nlohmann::json& counts) {
    std::vector<int64_t> tokens;
    if (!counts.is_array()) refuse(file, block + " is not a list");
    for (const nlohmann::json& count : counts) {
        if (!count.is_number_unsigned() || count.get<uint64_t>() > uint64_t{1} << 62) {
            refuse(file, block + " has something else than counts");
        }
        tokens.push_back(count.get<int64_t>());
    }
    return tokens;
}

}  // namespace

std::vector<ExpertLoad> read_expert_load(const std::filesystem::path& file) {
    const nlohmann::json json = parse_json(read_file(file), file.string());
    if (!json.is_object() || json.value("schema", nlohmann::json()) != kSchema) {
        refuse(file, fmt::format("its schema is not {}", kSchema));
    }
    const auto blocks = json.find("blocks");
    if (blocks == json.end() || !blocks->is_object()) refuse(file, "there are no blocks");
    std::vector<ExpertLoad> loads;
    for (const auto& [block, counts] : blocks->items()) {
        loads.push_back({block, counts_of(file, block, counts)});
    }
    return loads;
}

void check_blocks(const std::vector<ExpertLoad>& loads, size_t blocks) {
    if (loads.size() == blocks) return;
    throw Error(ErrorKind::bad_data,
                fmt::format("--expert-load: the file is of {} blocks, and {} of the model have "
                            "experts; the file is of another model",
                            loads.size(), blocks));
}

std::vector<int64_t> load_of_block(const std::vector<ExpertLoad>& loads, const std::string& block,
                                   size_t experts) {
    const auto found = std::ranges::find(loads, block, &ExpertLoad::block);
    if (found != loads.end() && found->tokens.size() == experts) return found->tokens;
    throw Error(
        ErrorKind::bad_data,
        fmt::format("--expert-load: {} of the model has {} experts, and {}; the file is of "
                    "another model",
                    block, experts,
                    found == loads.end() ? std::string("the file does not know it")
                                         : fmt::format("{} in the file", found->tokens.size())));
}

ExpertLoadRecorder::ExpertLoadRecorder(const std::filesystem::path& file) : file_(file) { write(); }

ExpertLoadRecorder::~ExpertLoadRecorder() {
    try {
        if (!is_written_) write();
    } catch (const std::exception& error) {
        log_error(error.what());
    }
}

void ExpertLoadRecorder::add(const std::vector<ExpertLoad>& load) {
    if (load.empty()) return;
    add_expert_load(load, sum_);
    is_written_ = false;
    if (std::chrono::steady_clock::now() - last_ <= kBetweenWrites) return;
    try {
        write();
    } catch (const Error& error) {
        log_error(error.what());
        last_ = std::chrono::steady_clock::now();
    }
}

void ExpertLoadRecorder::write() {
    nlohmann::ordered_json blocks = nlohmann::ordered_json::object();
    for (const ExpertLoad& load : sum_) blocks[load.block] = load.tokens;
    const nlohmann::ordered_json json = {{"schema", kSchema}, {"blocks", std::move(blocks)}};
    const std::string text = write_json(json) + "\n";
    NewFile file(file_);
    file.write(text.data(), text.size());
    file.publish();
    is_written_ = true;
    last_ = std::chrono::steady_clock::now();
}

}  // namespace nvllm
