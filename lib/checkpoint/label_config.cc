// Reading id2label, num_labels, problem_type and the names of functions.
#include "lib/checkpoint/label_config.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace nvllm {
namespace {

constexpr int64_t kMaxLabels = 65536;
constexpr int64_t kUsualLabels = 2;

std::vector<std::string> read_labels(const ConfigFields& fields) {
    const nlohmann::json* names = fields.find("id2label");
    const int64_t said = fields.integer("num_labels", 1, kMaxLabels).value_or(kUsualLabels);
    const bool is_named = names != nullptr && names->is_object() && !names->empty();
    if (is_named && names->size() > static_cast<size_t>(kMaxLabels)) {
        fields.refuse("id2label", fmt::format("at most {} classes are expected", kMaxLabels));
    }
    const int64_t count = is_named ? static_cast<int64_t>(names->size()) : said;
    std::vector<std::string> labels;
    for (int64_t i = 0; i < count; ++i) {
        const auto name =
            is_named ? names->find(std::to_string(i)) : nlohmann::json::const_iterator();
        const bool is_text = is_named && name != names->end() && name->is_string();
        labels.push_back(is_text ? name->get<std::string>() : fmt::format("LABEL_{}", i));
    }
    return labels;
}

struct NamedFunction {
    std::string_view name;  // of a class of torch.nn
    LabelFunction function;
};

constexpr std::array<NamedFunction, 3> kFunctions = {{
    {"Identity", LabelFunction::none},
    {"Sigmoid", LabelFunction::sigmoid},
    {"Softmax", LabelFunction::softmax},
}};

// "torch.nn.modules.activation.Sigmoid": by its last part.
LabelFunction function_named(const ConfigFields& fields, const char* key, const std::string& path) {
    for (const NamedFunction& row : kFunctions) {
        const bool is_torch = path.starts_with("torch.nn.");
        if (is_torch && path.ends_with(fmt::format(".{}", row.name))) return row.function;
    }
    fields.refuse(key, "of the functions of torch.nn, Identity, Sigmoid and Softmax are supported");
}

std::optional<LabelFunction> stored_function(const ConfigFields& fields) {
    if (const auto section = fields.object("sentence_transformers")) {
        if (const auto name = section->text("activation_fn")) {
            return function_named(*section, "activation_fn", *name);
        }
    }
    constexpr const char* kOldKey = "sbert_ce_default_activation_function";
    const auto name = fields.text(kOldKey);
    return name ? std::optional(function_named(fields, kOldKey, *name)) : std::nullopt;
}

LabelFunction read_function(const ConfigFields& fields, size_t num_labels) {
    const LabelFunction usual = num_labels == 1 ? LabelFunction::sigmoid : LabelFunction::softmax;
    const std::string problem = fields.text("problem_type").value_or("");
    if (problem == "regression") return LabelFunction::none;
    if (problem == "single_label_classification") return usual;
    if (problem == "multi_label_classification") return LabelFunction::sigmoid;
    if (!problem.empty()) {
        fields.refuse("problem_type",
                      "regression, single_label_classification or multi_label_classification is "
                      "expected");
    }
    return stored_function(fields).value_or(usual);
}

}  // namespace

LabelConfig read_label_config(const ConfigFields& fields) {
    LabelConfig config;
    config.labels = read_labels(fields);
    config.function = read_function(fields, config.labels.size());
    return config;
}

}  // namespace nvllm
