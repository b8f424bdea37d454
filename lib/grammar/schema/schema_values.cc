#include "lib/grammar/schema/schema_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/error.h"
#include "lib/base/utf8.h"
#include "lib/tokenizer/unicode/regex.h"

namespace nvllm {
namespace {

constexpr int kMaxDepth = 12;

using Answer = std::optional<bool>;

Answer both(Answer first, Answer second) {
    if ((first && !*first) || (second && !*second)) return false;
    return first && second ? Answer(true) : std::nullopt;
}

double number_at(const SchemaJson& node, const char* key, double otherwise) {
    const auto found = node.find(key);
    return found != node.end() && found->is_number() ? found->get<double>() : otherwise;
}

constexpr double kEndless = std::numeric_limits<double>::infinity();

bool is_whole(const SchemaJson& value) {
    return value.is_number_integer() || std::floor(value.get<double>()) == value.get<double>();
}

bool has_type(const SchemaJson& written, const SchemaJson& value) {
    const auto fits = [&](const std::string& type) {
        if (type == "integer") return value.is_number() && is_whole(value);
        return type == type_of(value);
    };
    const SchemaJson& type = written.at("type");
    if (type.is_string()) return fits(type.get<std::string>());
    return std::any_of(type.begin(), type.end(),
                       [&](const SchemaJson& each) { return fits(each.get<std::string>()); });
}

Answer accepts_number(const SchemaJson& written, const SchemaJson& value) {
    const double number = value.get<double>();
    if (written.contains("multipleOf")) {
        const double step = written.at("multipleOf").get<double>();
        if (std::fmod(number, step) != 0) return false;
    }
    return number >= number_at(written, "minimum", -kEndless) &&
           number <= number_at(written, "maximum", kEndless) &&
           number > number_at(written, "exclusiveMinimum", -kEndless) &&
           number < number_at(written, "exclusiveMaximum", kEndless);
}

// The engine's words, in PCRE2's.
Answer matches_pattern(const std::string& pattern, const std::string& text) {
    std::string translated;
    for (size_t i = 0; i < pattern.size(); ++i) {
        if (pattern[i] == '\\' && i + 1 < pattern.size()) {
            translated += '\\';
            translated += pattern[i + 1] == 'u' ? 'x' : pattern[i + 1];
            ++i;
        } else {
            translated += pattern[i];
        }
    }
    try {
        const Regex regex("\\A(?:" + translated + ")\\z");
        Regex::Matches matches(regex, text);
        ByteRange range;
        return matches.next(range);
    } catch (const Error&) {
        return std::nullopt;
    }
}

Answer accepts_string(const SchemaJson& written, const SchemaJson& value) {
    const std::string text = value.get<std::string>();
    const auto length = static_cast<double>(utf8::is_valid(text) ? utf8::count(text) : text.size());
    if (length < number_at(written, "minLength", 0) ||
        length > number_at(written, "maxLength", kEndless))
        return false;
    if (!written.contains("pattern")) return true;
    return matches_pattern(written.at("pattern").get<std::string>(), text);
}

bool ranges_meet(const SchemaJson& first, const SchemaJson& second, const char* least,
                 const char* most) {
    return std::max(number_at(first, least, -kEndless), number_at(second, least, -kEndless)) <=
           std::min(number_at(first, most, kEndless), number_at(second, most, kEndless));
}

bool numbers_are_disjoint(const SchemaJson& first, const SchemaJson& second) {
    if (!ranges_meet(first, second, "minimum", "maximum")) return true;
    for (const auto* pair : {&first, &second}) {
        const SchemaJson& one = *pair;
        const SchemaJson& other = pair == &first ? second : first;
        const double above = number_at(one, "exclusiveMinimum", -kEndless);
        if (above >= number_at(other, "maximum", kEndless) ||
            above >= number_at(other, "exclusiveMaximum", kEndless))
            return true;
        const double below = number_at(one, "exclusiveMaximum", kEndless);
        if (below <= number_at(other, "minimum", -kEndless)) return true;
    }
    return false;
}

}  // namespace

std::string type_of(const SchemaJson& value) {
    if (value.is_null()) return "null";
    if (value.is_boolean()) return "boolean";
    if (value.is_number()) return "number";
    if (value.is_string()) return "string";
    return value.is_array() ? "array" : "object";
}

const SchemaJson* SchemaValues::resolved(const SchemaJson& written) const {
    const SchemaJson* node = &written;
    for (int step = 0; step < kMaxDepth; ++step) {
        if (!node->is_object() || !node->contains("$ref")) return node;
        const std::string name = node->at("$ref").get<std::string>().substr(8);  // "#/$defs/"
        const auto found = definitions_.find(name);
        if (found == definitions_.end()) return nullptr;
        node = &*found;
    }
    return nullptr;
}

Answer SchemaValues::accepts(const SchemaJson& written, const SchemaJson& value) const {
    return accepts(written, value, 0);
}

Answer SchemaValues::accepts(const SchemaJson& written, const SchemaJson& value, int depth) const {
    if (written.is_boolean()) return written.get<bool>();
    const SchemaJson* node = resolved(written);
    if (node == nullptr || depth > kMaxDepth) return std::nullopt;
    if (node->empty()) return true;
    if (node->contains("enum")) {
        const SchemaJson& values = node->at("enum");
        return std::find(values.begin(), values.end(), value) != values.end();
    }
    if (node->contains("anyOf")) {
        Answer answer = false;
        for (const SchemaJson& each : node->at("anyOf")) {
            const Answer one = accepts(each, value, depth + 1);
            if (one && *one) return true;
            if (!one) answer = std::nullopt;
        }
        return answer;
    }
    if (!has_type(*node, value)) return false;
    if (value.is_number()) return accepts_number(*node, value);
    if (value.is_string()) return accepts_string(*node, value);
    if (value.is_array()) return accepts_array(*node, value, depth);
    if (value.is_object()) return accepts_object(*node, value, depth);
    return true;
}

Answer SchemaValues::accepts_array(const SchemaJson& written, const SchemaJson& value,
                                   int depth) const {
    const auto size = static_cast<double>(value.size());
    if (size < number_at(written, "minItems", 0) || size > number_at(written, "maxItems", kEndless))
        return false;
    const auto prefix = written.find("prefixItems");
    const auto rest = written.find("items");
    Answer answer = true;
    for (size_t i = 0; i < value.size(); ++i) {
        if (prefix != written.end() && i < prefix->size()) {
            answer = both(answer, accepts((*prefix)[i], value[i], depth + 1));
        } else if (rest != written.end()) {
            answer = both(answer, accepts(*rest, value[i], depth + 1));
        }
    }
    return answer;
}

Answer SchemaValues::accepts_object(const SchemaJson& written, const SchemaJson& value,
                                    int depth) const {
    if (written.contains("patternProperties") || written.contains("propertyNames"))
        return std::nullopt;
    const auto size = static_cast<double>(value.size());
    if (size < number_at(written, "minProperties", 0) ||
        size > number_at(written, "maxProperties", kEndless))
        return false;
    if (const auto required = written.find("required"); required != written.end())
        for (const SchemaJson& name : *required)
            if (!value.contains(name.get<std::string>())) return false;
    const auto properties = written.find("properties");
    const auto rest = written.find("additionalProperties");
    Answer answer = true;
    for (const auto& [key, each] : value.items()) {
        if (properties != written.end() && properties->contains(key)) {
            answer = both(answer, accepts(properties->at(key), each, depth + 1));
        } else if (rest != written.end()) {
            answer = both(answer, accepts(*rest, each, depth + 1));
        }
    }
    return answer;
}

std::optional<std::vector<SchemaJson>> SchemaValues::of_type(const SchemaJson& written,
                                                             const std::string& type) const {
    const SchemaJson* node = resolved(written);
    if (node == nullptr) return std::nullopt;
    std::vector<SchemaJson> all;
    if (node->empty()) {
        all.push_back({{"type", type}});
    } else if (node->contains("anyOf")) {
        for (const SchemaJson& each : node->at("anyOf")) {
            const auto more = of_type(each, type);
            if (!more) return std::nullopt;
            all.insert(all.end(), more->begin(), more->end());
        }
    } else if (node->contains("enum")) {
        SchemaJson values = SchemaJson::array();
        for (const SchemaJson& value : node->at("enum"))
            if (type_of(value) == type) values.push_back(value);
        if (!values.empty()) all.push_back({{"enum", values}});
    } else {
        const SchemaJson& types = node->at("type");
        const auto is_it = [&](const SchemaJson& each) {
            return each == type || (type == "number" && each == "integer");
        };
        if (types.is_string() && is_it(types)) all.push_back(*node);
        if (types.is_array())
            for (const SchemaJson& each : types)
                if (is_it(each)) all.push_back({{"type", each}});
    }
    return all;
}

bool SchemaValues::are_disjoint(const SchemaJson& first, const SchemaJson& second) const {
    return are_disjoint(first, second, 0);
}

bool SchemaValues::are_disjoint(const SchemaJson& first, const SchemaJson& second,
                                int depth) const {
    if (depth > kMaxDepth) return false;
    for (const SchemaJson* each : {&first, &second})
        if (each->is_boolean()) return !each->get<bool>();
    const SchemaJson* a = resolved(first);
    const SchemaJson* b = resolved(second);
    if (a == nullptr || b == nullptr || a->empty() || b->empty()) return false;
    for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
        const SchemaJson& against = *other;
        if (one->contains("anyOf")) {
            const SchemaJson& all = one->at("anyOf");
            return std::all_of(all.begin(), all.end(), [&](const SchemaJson& each) {
                return are_disjoint(each, against, depth + 1);
            });
        }
        if (one->contains("enum")) {
            const SchemaJson& all = one->at("enum");
            return std::all_of(all.begin(), all.end(), [&](const SchemaJson& value) {
                return accepts(against, value) == Answer(false);
            });
        }
    }
    for (const char* type : {"null", "boolean", "number", "string", "array", "object"}) {
        const auto left = of_type(*a, type);
        const auto right = of_type(*b, type);
        if (!left || !right) return false;
        if (left->empty() || right->empty()) continue;
        const SchemaJson& one = left->front();
        const SchemaJson& other = right->front();
        const std::string name = type;
        const bool apart =
            (name == "number" && numbers_are_disjoint(one, other)) ||
            (name == "string" && !ranges_meet(one, other, "minLength", "maxLength")) ||
            (name == "array" && !ranges_meet(one, other, "minItems", "maxItems")) ||
            (name == "object" && objects_are_disjoint(one, other, depth));
        if (!apart) return false;
    }
    return true;
}

bool SchemaValues::objects_are_disjoint(const SchemaJson& first, const SchemaJson& second,
                                        int depth) const {
    for (const auto& [one, other] : {std::pair(&first, &second), std::pair(&second, &first)}) {
        const auto required = one->find("required");
        if (required == one->end() || other->contains("patternProperties")) continue;
        for (const SchemaJson& each : *required) {
            const std::string name = each.get<std::string>();
            const auto schema_in = [&](const SchemaJson& written) -> SchemaJson {
                const auto properties = written.find("properties");
                if (properties != written.end() && properties->contains(name))
                    return properties->at(name);
                return written.value("additionalProperties", SchemaJson(true));
            };
            const SchemaJson theirs = schema_in(*other);
            if (theirs == SchemaJson(false) || are_disjoint(schema_in(*one), theirs, depth + 1))
                return true;
        }
    }
    return false;
}

}  // namespace nvllm
