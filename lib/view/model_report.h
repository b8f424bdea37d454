// All that can be said of a model, or of one of its files, without reading a weight.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/checkpoint/draft_head_config.h"
#include "lib/checkpoint/model_config.h"
#include "lib/tokenizer/tokenizer.h"
#include "lib/view/tensor_list.h"

namespace nvllm::view {

// How quantized linears run: multiplied as they are, or widened when they are loaded.
struct QuantizedLinearCounts {
    int64_t native = 0;
    int64_t widened = 0;
};

// What only an engine knows; tools hand it in, because this room lies beside the engine.
struct ModelKnowledge {
    std::vector<std::string> architectures;  // that are supported
    // describe_model_config() of all families.
    std::function<ModelConfig(const std::filesystem::path& file)> describe_config;
    std::function<std::optional<Fault>(const std::filesystem::path& directory)> find_obstacle;
    std::function<std::vector<ListedTensor>(const ModelConfig&)> tensors_of_config;
    // Empty: not known. Nothing: dense weights, or a model that does not load.
    std::function<std::optional<QuantizedLinearCounts>(const std::filesystem::path& directory)>
        quantized_linears = nullptr;
    // Modules that are stored and would not be used; empty itself: not known.
    std::function<std::string(const std::filesystem::path& directory)> note_of_weights = nullptr;
    // The draft head that a directory holds. Empty: not known.
    std::function<std::optional<DraftHeadConfig>(const std::filesystem::path& directory)>
        draft_head = nullptr;
    // The layout of a model's next-token layer; empty: it has none that is read.
    std::function<std::string(const std::filesystem::path& directory)> next_token_layout = nullptr;
};

struct WeightFile {
    std::string name;
    uint64_t bytes = 0;
};

struct ChatTemplateReport {
    std::string name;  // "default" or its own
    size_t bytes = 0;
    std::string fault;  // why it cannot be parsed; empty: it can
};

// How weights are quantized, as config.json says.
struct QuantizationReport {
    std::string method;
    std::optional<int64_t> bits;
    std::optional<int64_t> group_size;
    std::string section;  // all of it, as JSON
    std::optional<QuantizedLinearCounts> linears;
};

struct ModelReport {
    std::filesystem::path path;
    std::string kind;  // "model", "draft head", "safetensors file", "tokenizer file", "config file"
    std::optional<ModelConfig> config;
    std::optional<DraftHeadConfig> draft_head;     // `config` is then of its layers
    std::string next_token_layout;                 // of a model's layer for drafts; empty: none
    std::vector<std::string> known_architectures;  // when there is a config
    std::string obstacle;                          // why it cannot be run; empty: it can
    std::vector<ListedTensor> tensors;
    bool from_meta = false;                       // tensors are those that the config asks for
    int64_t estimated_parameters = 0;             // of an unknown architecture without weights
    std::vector<WeightFile> weight_files;         // files of tensors
    std::map<std::string, std::string> metadata;  // of a safetensors file
    std::optional<QuantizationReport> quantization;
    std::shared_ptr<const Tokenizer> tokenizer;  // null: none
    std::vector<ChatTemplateReport> chat_templates;
    std::optional<GenerationConfig> generation;
    std::vector<std::string> notes;
};

// Of a folder, or of one .safetensors, tokenizer or config.json file, told apart by name and
// content. Headers only. Throws not_found or bad_data when a file of it is missing or broken.
ModelReport read_model_report(const std::filesystem::path& path, const ModelKnowledge& knowledge);

// A versioned object, "nvllm-inspect.model/1".
nlohmann::ordered_json report_json(const ModelReport& report, bool with_tensors);
// The same for people, at most 80 columns wide where names allow it.
std::string report_text(const ModelReport& report, bool with_tensors);

}  // namespace nvllm::view
