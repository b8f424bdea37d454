#include "lib/grammar/schema/schema_document.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "lib/base/json.h"
#include "lib/grammar/schema/uri_reference.h"

namespace nvllm {
namespace {

std::string text_at(const SchemaJson& node, const char* key) {
    const auto found = node.find(key);
    return found != node.end() && found->is_string() ? found->get<std::string>() : "";
}

// "/a b/c~0d": from "%XX".
std::string without_percents(const std::string& text) {
    std::string plain;
    for (size_t i = 0; i < text.size(); ++i) {
        const auto digits = text.substr(i + 1, 2);
        if (text[i] == '%' && digits.size() == 2 &&
            digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos) {
            plain += static_cast<char>(std::stoi(digits, nullptr, 16));
            i += 2;
        } else {
            plain += text[i];
        }
    }
    return plain;
}

std::string escaped(const std::string& key) {
    std::string part;
    for (const char c : key) part += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    return part;
}

// Keywords below which schemas stand: one or a list of them, or by names.
constexpr std::string_view kKeywords[] = {"additionalItems",
                                          "additionalProperties",
                                          "allOf",
                                          "anyOf",
                                          "contains",
                                          "contentSchema",
                                          "else",
                                          "if",
                                          "items",
                                          "not",
                                          "oneOf",
                                          "prefixItems",
                                          "propertyNames",
                                          "then",
                                          "unevaluatedItems",
                                          "unevaluatedProperties"};
constexpr std::string_view kKeywordsWithNames[] = {
    "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"};

bool is_any_of(std::string_view word, std::span<const std::string_view> words) {
    return std::ranges::find(words, word) != words.end();
}

// A draft before 2019-09, as far as the document says.
bool is_old_draft(const SchemaJson& root) {
    if (!root.is_object()) return false;
    const std::string dialect = text_at(root, "$schema");
    if (!dialect.empty()) return dialect.find("/draft-0") != std::string::npos;
    return root.contains("definitions") && !root.contains("$defs");
}

// The part of a document that a JSON pointer names; null where there is none.
const SchemaJson* at_pointer(const SchemaJson& root, const std::string& pointer) {
    const SchemaJson* node = &root;
    size_t begin = 1;
    while (begin <= pointer.size()) {
        const size_t end = std::min(pointer.find('/', begin), pointer.size());
        std::string key;
        for (size_t i = begin; i < end; ++i) {
            if (pointer[i] == '~' && i + 1 < end) {
                key += pointer[++i] == '1' ? '/' : '~';
            } else {
                key += pointer[i];
            }
        }
        if (node->is_object()) {
            const auto found = node->find(key);
            if (found == node->end()) return nullptr;
            node = &*found;
        } else if (node->is_array()) {
            if (key.empty() || key.size() > 6 ||
                key.find_first_not_of("0123456789") != std::string::npos)
                return nullptr;
            const size_t at = std::stoul(key);
            if (at >= node->size()) return nullptr;
            node = &(*node)[at];
        } else {
            return nullptr;
        }
        begin = end + 1;
    }
    return node;
}

}  // namespace

SchemaDocument::SchemaDocument(const SchemaJson& root, const std::string& where, ThreadTime end)
    : root_(root), reference_stands_alone_(is_old_draft(root)), end_(end) {
    resources_[""] = &root_;
    index(root_, {where, ""}, PartKind::schema);
}

void SchemaDocument::index_names(const SchemaJson& node, std::string& address) {
    if (reference_stands_alone_ && node.contains("$ref")) return;
    const std::string id = text_at(node, "$id");
    if (!id.empty() && !id.starts_with("#")) {
        address = resolved_uri(address, id);
        address.resize(std::min(address.find('#'), address.size()));
        resources_.emplace(address, &node);
    } else if (id.size() > 1) {
        anchors_.emplace(address + id, &node);
    }
    for (const char* keyword : {"$anchor", "$dynamicAnchor"})
        if (const std::string anchor = text_at(node, keyword); !anchor.empty())
            anchors_.emplace(address + "#" + anchor, &node);
}

void SchemaDocument::index(const SchemaJson& node, const Part& part, PartKind kind) {
    Part mine = part;
    if (kind == PartKind::schema && node.is_object()) index_names(node, mine.address);
    parts_[&node] = mine;
    const auto index_child = [&](const SchemaJson& child, const std::string& name, PartKind what) {
        if (child.is_structured() || child.is_boolean())
            index(child, {mine.pointer + "/" + name, mine.address}, what);
    };
    const PartKind below = kind == PartKind::schemas ? PartKind::schema : PartKind::other;
    if (node.is_object()) {
        for (const auto& [key, value] : node.items()) {
            PartKind what = below;
            if (kind == PartKind::schema && is_any_of(key, kKeywordsWithNames)) {
                what = PartKind::schemas;
            } else if (kind == PartKind::schema && is_any_of(key, kKeywords)) {
                what = value.is_array() ? PartKind::schemas : PartKind::schema;
            }
            index_child(value, escaped(key), what);
        }
    } else if (node.is_array()) {
        for (size_t i = 0; i < node.size(); ++i) index_child(node[i], std::to_string(i), below);
    }
}

std::string SchemaDocument::where(const SchemaJson* node) const {
    const auto found = parts_.find(node);
    return found == parts_.end() ? "#" : found->second.pointer;
}

void SchemaDocument::pass() const {
    if (++passed_ % 64 != 0 || thread_time() < end_) return;
    throw Fault{ErrorKind::bad_data,
                "the JSON schema is too large to compile: it takes too long; simplify it"};
}

void SchemaDocument::refuse(const SchemaJson* node, const std::string& what) const {
    throw Fault{ErrorKind::bad_data,
                "the JSON schema cannot be used: " + where(node) + ": " + what};
}

const SchemaJson* SchemaDocument::target(const SchemaJson& reference,
                                         const SchemaJson* from) const {
    if (!reference.is_string()) refuse(from, "\"$ref\" is no text");
    const auto part = parts_.find(from);
    const std::string uri = resolved_uri(part == parts_.end() ? "" : part->second.address,
                                         reference.get<std::string>());
    const size_t end = std::min(uri.find('#'), uri.size());
    const auto resource = resources_.find(uri.substr(0, end));
    if (resource == resources_.end()) {
        refuse(from, "\"$ref\" to " + json_quoted(uri) +
                         ", which is another document; only parts of this one can be referred to");
    }
    const std::string fragment = without_percents(uri.substr(std::min(end + 1, uri.size())));
    const SchemaJson* node = nullptr;
    if (fragment.empty()) {
        node = resource->second;
    } else if (fragment.starts_with("/")) {
        node = at_pointer(*resource->second, fragment);
    } else if (const auto found = anchors_.find(resource->first + "#" + fragment);
               found != anchors_.end()) {
        node = found->second;
    }
    if (node == nullptr) refuse(from, "\"$ref\" to " + json_quoted(uri) + ", which is not there");
    return node;
}

}  // namespace nvllm
