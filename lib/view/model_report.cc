// Gathers a report: which files there are, and what each says.
#include "lib/view/model_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/chat/chat_template.h"
#include "lib/checkpoint/text_part.h"
#include "lib/tokenizer/model_notes.h"

namespace nvllm::view {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::optional<int64_t> any_integer(const Json& section, std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
        const auto value = section.find(key);
        if (value != section.end() && value->is_number_integer()) return value->get<int64_t>();
    }
    return std::nullopt;
}

// compressed-tensors nests bits and group size in config_groups.group_0.weights.
Json weights_group(const Json& section) {
    const auto groups = section.find("config_groups");
    if (groups == section.end() || !groups->is_object() || groups->empty()) return section;
    const Json& first = *groups->begin();
    if (!first.is_object() || !first.contains("weights") || !first["weights"].is_object()) {
        return section;
    }
    return first["weights"];
}

std::optional<QuantizationReport> read_quantization(const ModelConfig& config) {
    if (!config.quantized) return std::nullopt;
    const Json document = parse_json(config.raw_json, "config.json");
    const Json& text = text_section(document);
    Json section = Json::object();
    for (const char* key : {"quantization_config", "compression_config", "quantization"}) {
        if (!section.empty()) break;
        section = document.value(key, text.value(key, Json::object()));
    }
    QuantizationReport report;
    report.section = write_json(section);
    if (!section.is_object()) return report;
    const auto method = section.find("quant_method");
    if (method != section.end() && method->is_string()) report.method = method->get<std::string>();
    const Json group = weights_group(section);
    report.bits = any_integer(group, {"bits", "w_bit", "num_bits"});
    if (report.bits && (*report.bits < 1 || *report.bits > 32)) report.bits.reset();
    report.group_size = any_integer(group, {"group_size", "q_group_size"});
    return report;
}

void add_tokenizer(ModelReport& report) {
    if (report.tokenizer == nullptr) return;
    for (const std::string& name : report.tokenizer->chat_template_names()) {
        const std::string source = report.tokenizer->chat_template(name);
        ChatTemplateReport row{name, source.size(), ""};
        try {
            const ChatTemplate parsed(source);
        } catch (const Error& error) {
            row.fault = error.what();
        }
        report.chat_templates.push_back(row);
    }
}

void add_config(ModelConfig config, const ModelKnowledge& knowledge, ModelReport& report) {
    report.known_architectures = knowledge.architectures;
    report.quantization = read_quantization(config);
    report.obstacle = config.refusal;
    report.config = std::move(config);
}

// What the config asks for, where there are no weights to look at.
void add_meta(const ModelKnowledge& knowledge, ModelReport& report) {
    if (!report.config || !report.tensors.empty()) return;
    report.from_meta = true;
    report.tensors = knowledge.tensors_of_config(*report.config);
    if (report.tensors.empty()) report.estimated_parameters = report.config->estimated_parameters();
}

void add_weights(const fs::path& directory, ModelReport& report) {
    if (!Checkpoint::is_present(directory)) {
        report.notes.push_back(
            report.config ? "no safetensors weights are there; sizes follow from config.json"
                          : "no safetensors weights are there");
        return;
    }
    const Checkpoint checkpoint = Checkpoint::open(directory);
    report.tensors = list_tensors(checkpoint);
    for (const auto& file : checkpoint.files()) {
        report.weight_files.push_back({file->path().filename().string(), file->bytes().size()});
        report.metadata.insert(file->metadata().begin(), file->metadata().end());
    }
}

void add_notes(const std::string& weights, ModelReport& report) {
    const auto notes =
        model_notes(report.config.value_or(ModelConfig()), weights, report.tokenizer.get(),
                    report.generation.value_or(GenerationConfig()));
    report.notes.insert(report.notes.end(), notes.begin(), notes.end());
}

// The layers' config under the architecture that the file names.
ModelConfig config_of_head(const DraftHeadConfig& head, const ModelConfig& described) {
    ModelConfig config = head.block;
    config.architecture = described.architecture;
    return config;
}

void add_directory_config(const fs::path& directory, const ModelKnowledge& knowledge,
                          ModelReport& report) {
    ModelConfig config = knowledge.describe_config(directory / "config.json");
    if (knowledge.draft_head) report.draft_head = knowledge.draft_head(directory);
    if (report.draft_head) {
        report.kind = "draft head";
        config = config_of_head(*report.draft_head, config);
    } else if (knowledge.next_token_layout) {
        report.next_token_layout = knowledge.next_token_layout(directory);
    }
    add_config(std::move(config), knowledge, report);
    if (const auto fault = knowledge.find_obstacle(directory)) report.obstacle = fault->message;
    if (report.quantization && knowledge.quantized_linears) {
        report.quantization->linears = knowledge.quantized_linears(directory);
    }
}

ModelReport report_on_directory(const fs::path& directory, const ModelKnowledge& knowledge) {
    ModelReport report;
    report.path = directory;
    report.kind = "model";
    report.tokenizer = Tokenizer::load(directory);
    // Weights or a tokenizer alone are worth a look; a folder with none of it is no model.
    const bool has_parts = report.tokenizer != nullptr || Checkpoint::is_present(directory);
    if (fs::exists(directory / "config.json") || !has_parts) {
        add_directory_config(directory, knowledge, report);
    } else {
        report.notes.push_back("there is no config.json, so this cannot be run");
    }
    add_weights(directory, report);
    add_meta(knowledge, report);
    add_tokenizer(report);
    if (fs::exists(directory / "generation_config.json")) {
        report.generation = read_generation_config(directory);
    }
    add_notes(knowledge.note_of_weights ? knowledge.note_of_weights(directory) : "", report);
    return report;
}

ModelReport report_on_safetensors(const fs::path& path) {
    const SafetensorsFile file(path);
    ModelReport report;
    report.kind = "safetensors file";
    report.tensors = list_tensors(file);
    report.weight_files.push_back({path.filename().string(), file.bytes().size()});
    report.metadata = file.metadata();
    return report;
}

ModelReport report_on_tokenizer(const fs::path& path) {
    ModelReport report;
    report.kind = "tokenizer file";
    report.tokenizer = Tokenizer::load_file(path);
    add_tokenizer(report);
    add_notes("", report);
    return report;
}

ModelReport report_on_config(const fs::path& path, const ModelKnowledge& knowledge) {
    ModelReport report;
    report.kind = "config file";
    add_config(knowledge.describe_config(path), knowledge, report);
    add_meta(knowledge, report);
    add_notes("", report);
    return report;
}

// Weights in forms that are not read would only make a bewildering tokenizer.
void refuse_other_weights(const fs::path& path) {
    for (const char* extension : {".gguf", ".bin", ".pt", ".pth", ".ckpt", ".onnx", ".h5"}) {
        if (path.extension() != extension) continue;
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: {} files are not read; give a folder, a .safetensors file, a "
                                "tokenizer or a config.json",
                                path.string(), extension));
    }
}

// A JSON file that is no tokenizer's is taken for a config.
bool is_config(const fs::path& path) {
    if (path.extension() != ".json") return false;
    if (path.filename() == "config.json") return true;
    if (path.filename() == "tokenizer.json") return false;
    const std::string text = read_file(path);
    return text.find("\"architectures\"") != std::string::npos ||
           text.find("\"model_type\"") != std::string::npos;
}

}  // namespace

ModelReport read_model_report(const fs::path& path, const ModelKnowledge& knowledge) {
    if (fs::is_directory(path)) return report_on_directory(path, knowledge);
    refuse_other_weights(path);
    ModelReport report = path.extension() == ".safetensors" ? report_on_safetensors(path)
                         : is_config(path)                  ? report_on_config(path, knowledge)
                                                            : report_on_tokenizer(path);
    report.path = path;
    return report;
}

}  // namespace nvllm::view
