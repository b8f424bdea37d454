// The options, and the keys of the JSON object: vLLM's, and those that only we have.
#include "lib/engine/options/speculation_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/base/json.h"
#include "lib/base/option_values.h"
#include "lib/engine/options/json_values.h"
#include "lib/engine/options/part_options.h"
#include "lib/execute/propose/proposer_methods.h"
#include "lib/schedule/speculation/proposers.h"

namespace nvllm {
namespace {

using namespace json_values;
using Json = nlohmann::ordered_json;

constexpr auto kFlag = "--speculative-config";
// Where nothing says by what: the method that needs nothing.
constexpr auto kUsualMethod = "ngram";

[[noreturn]] void refuse(const std::string& message) {
    throw Error(ErrorKind::usage, fmt::format("{}: {}", kFlag, message));
}

struct Reading {
    SpeculationConfig config;
    std::string draft_model;
    DraftReading head;
    bool says_tokens = false;
    bool says_max = false;
    bool says_min = false;
    std::string_view says_tree;  // a key of trees; empty: none is there
    bool says_tree_tokens = false;
};

struct Key {
    std::string_view name;
    void (*read)(const Json&, Reading&);
};

// vLLM also names this method where a model stands.
void read_model(const Json& value, Reading& reading) {
    const std::string name = read_string(value);
    if (name == "ngram" || name == "[ngram]") {
        reading.config.method = "ngram";
    } else {
        reading.draft_model = name;
    }
}

void read_numbering(const Json& value, Reading& reading) {
    const std::string name = read_string(value);
    if (name != "layers_done" && name != "behind_layer") {
        throw WrongValue{"layers_done or behind_layer"};
    }
    reading.head.aux_layers =
        name == "layers_done" ? AuxLayerNumbering::layers_done : AuxLayerNumbering::behind_layer;
}

constexpr auto kKeys = std::to_array<Key>({
    {"method", [](const Json& v, Reading& r) { r.config.method = read_string(v); }},
    {"model", read_model},
    {"num_speculative_tokens",
     [](const Json& v, Reading& r) {
         r.config.num_speculative_tokens = read_int32(v);
         r.says_tokens = true;
     }},
    {"tree_width",
     [](const Json& v, Reading& r) {
         r.config.tree_width = read_int32(v);
         r.says_tree = "tree_width";
     }},
    {"tree_tokens",
     [](const Json& v, Reading& r) {
         r.config.tree_tokens = read_int32(v);
         r.says_tree = "tree_tokens";
         r.says_tree_tokens = true;
     }},
    {"prompt_lookup_max",
     [](const Json& v, Reading& r) {
         r.config.prompt_lookup_max = read_int32(v);
         r.says_max = true;
     }},
    {"prompt_lookup_min",
     [](const Json& v, Reading& r) {
         r.config.prompt_lookup_min = read_int32(v);
         r.says_min = true;
     }},
    {"suffix_cached_tokens",
     [](const Json& v, Reading& r) { r.config.suffix_cached_tokens = read_int32(v); }},
    {"aux_layer_numbering", read_numbering},
    {"masks_first_embedding",
     [](const Json& v, Reading& r) { r.head.masks_first_embedding = read_bool(v); }},
    {"synthetic_acceptance",
     [](const Json& v, Reading& r) { r.config.synthetic_acceptance = read_number(v); }},
    {"adaptive", [](const Json& v, Reading& r) { r.config.adaptive = read_bool(v); }},
});

void read_key(const std::string& name, const Json& value, Reading& reading) {
    std::vector<std::string_view> known;
    for (const Key& key : kKeys) {
        known.push_back(key.name);
        if (key.name != name) continue;
        try {
            if (!value.is_null()) key.read(value, reading);
        } catch (const WrongValue& wrong) {
            refuse(fmt::format("{} must be {}", name, wrong.expected));
        }
        return;
    }
    const auto nearest = nearest_name(name, known);
    refuse(fmt::format("unknown key '{}'{}", name,
                       nearest ? fmt::format("; did you mean '{}'?", *nearest) : ""));
}

void read_object(const std::string& text, Reading& reading) {
    Json object;
    try {
        object = parse_ordered_json(text, kFlag);
    } catch (const Error& error) {
        throw Error(ErrorKind::usage, error.what());
    }
    if (!object.is_object()) refuse(R"(a JSON object, such as {"method": "ngram"}, is expected)");
    for (const auto& [name, value] : object.items()) read_key(name, value, reading);
    // Of one limit alone, the other follows.
    SpeculationConfig& config = reading.config;
    if (!reading.says_min) {
        config.prompt_lookup_min = std::min(config.prompt_lookup_min, config.prompt_lookup_max);
    }
    if (!reading.says_max) {
        config.prompt_lookup_max = std::max(config.prompt_lookup_min, config.prompt_lookup_max);
    }
}

void read_short_forms(const SpeculationOptions& options, Reading& reading) {
    if (options.method != "auto") {
        if (!reading.config.method.empty() && reading.config.method != options.method) {
            refuse(fmt::format("method is '{}', and --speculative-method '{}'",
                               reading.config.method, options.method));
        }
        reading.config.method = options.method;
    }
    if (!options.draft_model.empty()) {
        if (!reading.draft_model.empty() && reading.draft_model != options.draft_model) {
            refuse(fmt::format("model is '{}', and --draft-model '{}'", reading.draft_model,
                               options.draft_model));
        }
        reading.draft_model = options.draft_model;
    }
    if (!options.num_speculative_tokens) return;
    const int32_t count = *options.num_speculative_tokens;
    if (reading.says_tokens && reading.config.num_speculative_tokens != count) {
        refuse(fmt::format("num_speculative_tokens is {}, and --num-speculative-tokens {}",
                           reading.config.num_speculative_tokens, count));
    }
    reading.config.num_speculative_tokens = count;
}

std::vector<std::string> method_names() {
    std::vector<std::string> names = names_of(draft_methods());
    std::ranges::copy(names_of(proposer_methods()), std::back_inserter(names));
    return names;
}

std::vector<std::string> method_words() {
    std::vector<std::string> words = method_names();
    words.emplace_back("auto");
    return words;
}

// Trees are of methods that compute confidences.
void check_tree(const Reading& reading) {
    const SpeculationConfig& config = reading.config;
    if (reading.says_tree.empty()) return;
    if (!config.by_worker) {
        refuse(fmt::format("{} is of methods that draft by a model; '{}' proposes a chain",
                           reading.says_tree, config.method));
    }
    if (reading.says_tree_tokens && !config.is_tree()) {
        refuse("tree_tokens is of trees, and tree_width is 1");
    }
    if (reading.says_tree_tokens && config.tree_tokens < 1) {
        refuse(fmt::format("tree_tokens is {}; it must be from 1 to {}", config.tree_tokens,
                           kMostDrafts));
    }
}

// Whether the method is the worker's, and has the model that it needs.
void check_method(Reading& reading) {
    SpeculationConfig& config = reading.config;
    if (config.method.empty()) {
        config.by_worker = !reading.draft_model.empty();
        return;
    }
    const ProposerMethod* const method = find_proposer_method(config.method);
    config.by_worker = method != nullptr;
    const std::vector<std::string> names = method_names();
    if (std::ranges::find(names, config.method) == names.end()) {
        refuse(fmt::format("method is '{}'; drafts are proposed by {}", config.method,
                           fmt::join(names, ", ")));
    }
    if (method == nullptr && !reading.draft_model.empty()) {
        refuse(fmt::format("method '{}' proposes without a model, and '{}' is one", config.method,
                           reading.draft_model));
    }
    if (method != nullptr && !method->is_of_target && reading.draft_model.empty()) {
        refuse(
            fmt::format("method '{}' needs \"model\", the folder of its weights", config.method));
    }
}

}  // namespace

OptionList<SpeculationOptions> speculation_options() {
    OptionList<SpeculationOptions> list("engine");
    list.group("Speculation");
    list.add("speculative-config", &SpeculationOptions::config,
             "Propose tokens and verify several in one step, with the same answers: {\"method\": "
             "\"ngram\", \"num_speculative_tokens\": 4, \"prompt_lookup_max\": 4, "
             "\"prompt_lookup_min\": 2}.",
             value_name("JSON"), default_text("none"));
    list.add("speculative-method", &SpeculationOptions::method,
             "The same as \"method\" of it. ngram: what followed the same tokens earlier in the "
             "prompt or the answer; suffix: there, and in past answers; draft_model: a smaller "
             "model; eagle, eagle3: a head over the model's hidden states; mtp: next-token layers "
             "of the model's own checkpoint; synthetic: of measurements; auto: of a draft model or "
             "head what its files say, "
             "else ngram where another option asks for speculation.",
             choices(method_words()));
    list.add("draft-model", &SpeculationOptions::draft_model,
             "The same as \"model\" of it: the folder, or name in the cache, of a smaller model or "
             "of a head that proposes tokens.",
             value_name("MODEL"), default_text("none"));
    list.add("num-speculative-tokens", &SpeculationOptions::num_speculative_tokens,
             "The same as \"num_speculative_tokens\" of it: proposed tokens of a sequence in a "
             "step; they become fewer by themselves where they do not pay.",
             range(1, kMostDrafts), default_text("4"));
    return list;
}

SpeculationSettings speculation_settings(const SpeculationOptions& options) {
    Reading reading;
    if (!options.config.empty()) read_object(options.config, reading);
    read_short_forms(options, reading);
    SpeculationConfig& config = reading.config;
    const bool is_asked_for = options.is_asked_for() && reading.draft_model.empty();
    if (config.method.empty() && is_asked_for) config.method = kUsualMethod;
    check_method(reading);
    check_tree(reading);
    try {
        config.check();
    } catch (const Error& error) {
        refuse(error.what());
    }
    return {config, reading.draft_model, reading.head};
}

}  // namespace nvllm
