#include "lib/grammar/schema/schema_document.h"

#include "lib/base/json.h"

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

// A draft before 2019-09, as far as the document says.
bool is_old_draft(const SchemaJson& root) {
    if (!root.is_object()) return false;
    const std::string dialect = text_at(root, "$schema");
    if (!dialect.empty()) return dialect.find("/draft-0") != std::string::npos;
    return root.contains("definitions") && !root.contains("$defs");
}

}  // namespace

SchemaDocument::SchemaDocument(const SchemaJson& root, const std::string& where, ThreadTime end)
    : root_(root), reference_stands_alone_(is_old_draft(root)), end_(end) {
    index(root_, where, false);
}

void SchemaDocument::index(const SchemaJson& node, const std::string& pointer, bool in_resource) {
    pointers_[&node] = pointer;
    if (node.is_object()) {
        const std::string id = text_at(node, "$id");
        if (!in_resource) {
            if (const std::string anchor = text_at(node, "$anchor"); !anchor.empty())
                anchors_.emplace(anchor, &node);
            if (id.starts_with("#") && id.size() > 1) anchors_.emplace(id.substr(1), &node);
        }
        if (&node != &root_ && !id.empty() && !id.starts_with("#")) {
            has_resources_ = true;
            in_resource = true;
        }
        for (const auto& [key, value] : node.items())
            if (value.is_structured() || value.is_boolean())
                index(value, pointer + "/" + escaped(key), in_resource);
    } else if (node.is_array()) {
        for (size_t i = 0; i < node.size(); ++i)
            index(node[i], pointer + "/" + std::to_string(i), in_resource);
    }
}

std::string SchemaDocument::where(const SchemaJson* node) const {
    const auto found = pointers_.find(node);
    return found == pointers_.end() ? "#" : found->second;
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

const SchemaJson* SchemaDocument::at_pointer(const std::string& pointer) const {
    const SchemaJson* node = &root_;
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

const SchemaJson* SchemaDocument::target(const SchemaJson& reference,
                                         const SchemaJson* from) const {
    if (!reference.is_string()) refuse(from, "\"$ref\" is no text");
    std::string uri = reference.get<std::string>();
    const std::string base = root_.is_object() ? text_at(root_, "$id") : "";
    if (!base.empty() && uri.starts_with(base) &&
        (uri.size() == base.size() || uri[base.size()] == '#'))
        uri = uri.size() == base.size() ? "#" : uri.substr(base.size());
    if (!uri.starts_with("#")) {
        refuse(from, "\"$ref\" to " + json_quoted(uri) +
                         ", which is another document; only parts of this one can be referred to");
    }
    if (has_resources_) {
        refuse(from,
               "\"$ref\" in a schema whose parts have an \"$id\" of their own is not supported");
    }
    const std::string fragment = without_percents(uri.substr(1));
    const SchemaJson* node = nullptr;
    if (fragment.empty()) {
        node = &root_;
    } else if (fragment.starts_with("/")) {
        node = at_pointer(fragment);
    } else if (const auto found = anchors_.find(fragment); found != anchors_.end()) {
        node = found->second;
    }
    if (node == nullptr) refuse(from, "\"$ref\" to " + json_quoted(uri) + ", which is not there");
    return node;
}

}  // namespace nvllm
