// Names of classes: a family's name, and what the class is for.
#include "lib/checkpoint/architecture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "lib/checkpoint/quoted.h"

namespace nvllm {
namespace {

enum class Purpose : uint8_t { text, parts, body, words, classes, other_head, unknown };

struct ClassSuffix {
    std::string_view text;
    Purpose purpose;
};

constexpr std::array<ClassSuffix, 9> kSuffixes = {{
    {"ForCausalLM", Purpose::text},
    {"LMHeadModel", Purpose::text},
    {"ForConditionalGeneration", Purpose::parts},
    {"ForMaskedLM", Purpose::words},
    {"ForPreTraining", Purpose::words},
    {"ForSequenceClassification", Purpose::classes},
    {"ForTokenClassification", Purpose::other_head},
    {"ForQuestionAnswering", Purpose::other_head},
    {"Model", Purpose::body},
}};

// Models of several parts whose text is computed otherwise than its part alone would.
struct Exception {
    std::string_view name;
    const char* reason;
};

constexpr std::array<Exception, 1> kExceptions = {{
    {"PaliGemmaForConditionalGeneration", "the tokens of its prompt see each other both ways"},
}};

struct ClassName {
    std::string_view stem;  // "Llama"
    Purpose purpose = Purpose::unknown;
};

ClassName split(std::string_view name) {
    for (const ClassSuffix& suffix : kSuffixes) {
        if (!name.ends_with(suffix.text)) continue;
        return {name.substr(0, name.size() - suffix.text.size()), suffix.purpose};
    }
    return {name, Purpose::unknown};
}

// A text part by itself has "Text" behind its family's name.
const FamilyDefaults* family_of_stem(FamilyTable families, std::string_view stem) {
    constexpr std::string_view kText = "Text";
    for (const FamilyDefaults& family : families) {
        const std::string_view known = split(family.architecture).stem;
        const bool is_text_part = stem.size() == known.size() + kText.size() &&
                                  stem.starts_with(known) && stem.ends_with(kText);
        if (known == stem || is_text_part) return &family;
    }
    return nullptr;
}

bool has_text_part(const nlohmann::json& document) {
    const auto text = document.find("text_config");
    return text != document.end() && text->is_object();
}

// A part with settings of a family's, as "llm_config, a qwen2"; empty: none has.
std::string known_part(const nlohmann::json& document, FamilyTable families) {
    for (const auto& [key, value] : document.items()) {
        if (!key.ends_with("_config") || !value.is_object()) continue;
        const std::string type =
            ConfigFields(value, "", BadValues::absent).text("model_type").value_or("");
        if (find_family(families, type, "").model_type.empty()) continue;
        return fmt::format("{}, a {}", quoted_for_message(key), type);
    }
    return {};
}

std::string describe_refusal(const std::string& name, const nlohmann::json& document,
                             const std::string& model_type, const FamilyDefaults& family,
                             FamilyTable families) {
    const std::string start =
        fmt::format("the architecture {} is not supported", quoted_for_message(name));
    for (const Exception& exception : kExceptions) {
        if (exception.name == name) return fmt::format("{}: {}", start, exception.reason);
    }
    if (const std::string part = known_part(document, families); !part.empty()) {
        return fmt::format(
            "{}, but its text part ({}) is of a supported family: save that part alone as a "
            "checkpoint of its own and run that",
            start, part);
    }
    if (!family.model_type.empty()) {
        return fmt::format(
            "{}, but its model_type {} is: if its weights are those of a plain {}, write that "
            "name into \"architectures\" of config.json",
            start, quoted_for_message(model_type), family.architecture);
    }
    std::vector<std::string_view> supported;
    for (const FamilyDefaults& known : families) supported.push_back(known.model_type);
    return fmt::format("{}, and neither is {}; supported families are {}", start,
                       model_type.empty() ? "a model_type given"
                                          : "its model_type " + quoted_for_message(model_type),
                       fmt::join(supported, ", "));
}

}  // namespace

const FamilyDefaults& family_of_architecture(FamilyTable families, std::string_view name) {
    const FamilyDefaults* const family = family_of_stem(families, split(name).stem);
    return family == nullptr ? find_family({}, "", "") : *family;
}

Architecture resolve_architecture(const nlohmann::json& document, const ConfigFields& settings,
                                  const FamilyDefaults& family, FamilyTable families) {
    const auto names = settings.texts("architectures");
    Architecture result;
    result.name = names && !names->empty() ? names->front() : family.architecture;
    const auto [stem, purpose] = split(result.name);
    const FamilyDefaults* const named = family_of_stem(families, stem);
    const bool is_part = has_text_part(document) || family.is_multi_part;
    const bool is_exception = std::ranges::any_of(
        kExceptions, [&](const Exception& exception) { return exception.name == result.name; });
    const bool is_tied = settings.boolean("tie_word_embeddings").value_or(family.tied);
    if (named != nullptr && purpose != Purpose::parts && purpose != Purpose::unknown &&
        !(named->encoder && purpose == Purpose::text)) {
        result.text = named->architecture;
        result.drops_head = purpose == Purpose::other_head;
        result.classifies = purpose == Purpose::classes;
        // A tied head is there whatever task the class is for.
        result.generates =
            !named->encoder && (purpose == Purpose::text || (purpose != Purpose::body && is_tied));
    } else if ((purpose == Purpose::parts || purpose == Purpose::text) && is_part &&
               !is_exception && !family.model_type.empty() && !family.encoder) {
        result.text = family.architecture;
        result.generates = true;
        result.is_multi_part = true;
    } else {
        result.refusal = describe_refusal(
            result.name, document, settings.text("model_type").value_or(""), family, families);
    }
    return result;
}

}  // namespace nvllm
