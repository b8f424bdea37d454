// Writes a schema anew in the few words that the engine holds to exactly: what applies together is
// put together, alternatives are told apart, types are said.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/grammar/schema/schema_parts.h"
#include "lib/grammar/schema/schema_shapes.h"
#include "lib/grammar/schema/schema_values.h"

namespace nvllm {

class SchemaWriter {
  public:
    explicit SchemaWriter(const SchemaDocument& document);
    SchemaWriter(const SchemaWriter&) = delete;
    SchemaWriter& operator=(const SchemaWriter&) = delete;

    // The whole schema, with "$defs" of its own. Throws Fault: what cannot be held to, or no value
    // satisfies it.
    SchemaJson write();

  private:
    struct Written {
        bool finished = false;
        bool referred_to = false;
        std::optional<SchemaJson> schema = {};
        std::string name = {};
    };

    std::optional<SchemaJson> write_set(const SchemaSet& set);
    std::optional<SchemaJson> write_new(const SchemaSet& set);
    std::optional<SchemaJson> write_case(const SchemaCase& held);
    std::optional<SchemaJson> with_values(const SchemaCase& held, std::vector<SchemaJson> values,
                                          const SchemaJson& shapes);
    bool is_ruled_out(const SchemaCase& held, const SchemaJson& value);
    std::vector<SchemaJson> shapes_of(const SchemaCase& held);
    void negate(const SchemaJson* negated, std::vector<SchemaJson>& shapes);
    void negate_property(const SchemaJson* negated, std::vector<SchemaJson>& shapes);
    std::vector<SchemaBranch> tell_apart(const SchemaJson* node);
    void tell_types_apart(const SchemaJson* node, const std::vector<SchemaJson>& written,
                          std::vector<SchemaBranch>& branches);
    void tell_objects_apart(const SchemaJson* node, const std::vector<SchemaJson>& written,
                            std::vector<SchemaBranch>& branches);
    SchemaSet reduced(const SchemaSet& set) const;
    SchemaJson reference_to(Written& written);

    const SchemaDocument& document_;
    SchemaJson definitions_ = SchemaJson::object();
    SchemaValues values_;
    WriteSet write_set_;
    TellApart tell_apart_;
    std::deque<SchemaJson> made_;
    std::map<SchemaSet, Written> written_;
    int depth_ = 0;
};

}  // namespace nvllm
