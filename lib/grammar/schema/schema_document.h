// A schema's text as a document: where its parts are, and what references in it mean.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

#include "lib/base/result.h"
#include "lib/grammar/thread_time.h"

namespace nvllm {

using SchemaJson = nlohmann::ordered_json;

class SchemaDocument {
  public:
    // Keeps a copy. `where`: what pointers begin with, "#".
    SchemaDocument(const SchemaJson& root, const std::string& where, ThreadTime end);
    SchemaDocument(const SchemaDocument&) = delete;
    SchemaDocument& operator=(const SchemaDocument&) = delete;

    const SchemaJson& root() const { return root_; }
    // "#/properties/age", for messages.
    std::string where(const SchemaJson* node) const;
    // What "$ref" says. Throws Fault when it is not in this document.
    const SchemaJson* target(const SchemaJson& reference, const SchemaJson* from) const;
    // In drafts up to 7 what stands beside "$ref" has no meaning.
    bool reference_stands_alone() const { return reference_stands_alone_; }

    // Called in loops; throws Fault when the time is over.
    void pass() const;
    [[noreturn]] void refuse(const SchemaJson* node, const std::string& what) const;

  private:
    struct Part {
        std::string pointer;  // with `where` before it
        std::string address;  // of the resource that it belongs to: the nearest "$id", resolved
    };

    // What a part is, by the keywords above it.
    enum class PartKind { schema, schemas, other };  // schemas: a list of them, or by name

    void index(const SchemaJson& node, const Part& part, PartKind kind);
    void index_names(const SchemaJson& node, std::string& address);

    const SchemaJson root_;
    std::unordered_map<const SchemaJson*, Part> parts_;
    std::map<std::string, const SchemaJson*> resources_;  // by address, without a fragment
    std::map<std::string, const SchemaJson*> anchors_;    // by address and "#name"
    bool reference_stands_alone_ = false;
    ThreadTime end_;
    mutable unsigned passed_ = 0;
};

}  // namespace nvllm
