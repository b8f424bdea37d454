#include "lib/grammar/schema/schema_writer.h"

#include <algorithm>
#include <set>

#include "lib/base/json.h"

namespace nvllm {
namespace {

constexpr size_t kMaxSets = 20000;
constexpr int kMaxDepth = 150;
constexpr size_t kInlineBytes = 200;
constexpr size_t kMaxReferences = 100;  // one to the next

SchemaJson any_of(std::vector<SchemaJson> all) {
    if (all.size() == 1) return all.front();
    const bool plain = std::all_of(all.begin(), all.end(), [](const SchemaJson& each) {
        return each.size() == 1 && each.contains("type") && each.at("type").is_string();
    });
    if (!plain) return {{"anyOf", all}};
    SchemaJson types = SchemaJson::array();
    for (const SchemaJson& each : all)
        if (std::find(types.begin(), types.end(), each.at("type")) == types.end())
            types.push_back(each.at("type"));
    return types.size() == 6 ? SchemaJson::object() : SchemaJson{{"type", types}};
}

// The types that "type" leaves, "integer" among them where only whole numbers are left.
std::set<std::string> types_of(const SchemaDocument& document, const SchemaCase& held,
                               bool& typed) {
    std::set<std::string> left = {"null", "boolean", "number", "string", "array", "object"};
    bool whole = false;
    for (const SchemaPart& part : held.parts) {
        const auto found = part.node->find("type");
        if (found == part.node->end()) continue;
        typed = true;
        std::set<std::string> mine;
        for (const SchemaJson& type : found->is_array() ? *found : SchemaJson::array({*found})) {
            const std::string name = type.is_string() ? type.get<std::string>() : "";
            if (name != "integer" &&
                !std::set<std::string>{"null", "boolean", "number", "string", "array", "object"}
                     .contains(name))
                document.refuse(part.node, "\"type\" " + write_json(type) + " is none");
            mine.insert(name);
        }
        if (mine.contains("integer")) {
            if (!mine.contains("number")) whole = true;
            mine.insert("number");
        }
        std::erase_if(left, [&](const std::string& type) { return !mine.contains(type); });
    }
    for (const std::string& type : held.extras.without_types) left.erase(type);
    if (whole && left.erase("number") > 0) left.insert("integer");
    return left;
}

// The values that "const" and "enum" leave; nothing: all.
std::optional<std::vector<SchemaJson>> listed_values(const SchemaDocument& document,
                                                     const SchemaCase& held) {
    std::optional<std::vector<SchemaJson>> left;
    const auto keep = [&](const std::vector<SchemaJson>& values) {
        if (!left) {
            left = values;
            return;
        }
        std::erase_if(*left, [&](const SchemaJson& value) {
            document.pass();
            return std::find(values.begin(), values.end(), value) == values.end();
        });
    };
    for (const SchemaPart& part : held.parts) {
        if (part.node->contains("const")) keep({part.node->at("const")});
        const auto found = part.node->find("enum");
        if (found == part.node->end()) continue;
        if (!found->is_array()) document.refuse(part.node, "\"enum\" is a list");
        keep({found->begin(), found->end()});
    }
    return left;
}

}  // namespace

SchemaWriter::SchemaWriter(const SchemaDocument& document)
    : document_(document),
      values_(definitions_, document),
      write_set_([this](const SchemaSet& set) { return write_set(set); }),
      tell_apart_([this](const SchemaJson* node) { return tell_apart(node); }) {}

SchemaJson SchemaWriter::write() {
    auto schema = write_set({&document_.root()});
    if (!schema) document_.refuse(&document_.root(), "no value satisfies it");
    if (!definitions_.empty()) {
        if (schema->contains("$ref")) *schema = {{"anyOf", SchemaJson::array({*schema})}};
        (*schema)["$defs"] = definitions_;
    }
    return *schema;
}

// Without what says nothing; references that stand alone are what they refer to.
SchemaSet SchemaWriter::reduced(const SchemaSet& set) const {
    SchemaSet plain;
    for (const SchemaJson* node : set) {
        for (size_t step = 0; node->is_object() && node->contains("$ref"); ++step) {
            if (!document_.reference_stands_alone() && !has_only(*node, "$ref")) break;
            if (step > kMaxReferences) document_.refuse(node, "\"$ref\" refers to itself");
            node = document_.target(node->at("$ref"), node);
        }
        if (*node == SchemaJson(true) || has_only(*node, "")) continue;
        plain.push_back(node);
    }
    std::sort(plain.begin(), plain.end());
    plain.erase(std::unique(plain.begin(), plain.end()), plain.end());
    return plain;
}

SchemaJson SchemaWriter::reference_to(Written& written) {
    if (!written.referred_to) {
        written.referred_to = true;
        written.name = "d" + std::to_string(definitions_.size() + written_.size());
    }
    if (written.finished) definitions_[written.name] = *written.schema;
    return {{"$ref", "#/$defs/" + written.name}};
}

std::optional<SchemaJson> SchemaWriter::write_set(const SchemaSet& set) {
    document_.pass();
    const SchemaSet key = reduced(set);
    // What is referred to is written once.
    const bool is_referred_to = set.size() == 1 && key.size() == 1 && key != set;
    if (key.empty()) return SchemaJson::object();
    const auto [found, is_new] = written_.try_emplace(key);
    Written& written = found->second;
    if (!is_new) {
        if (written.finished && !written.schema) return std::nullopt;
        if (written.finished && !written.referred_to &&
            write_json(*written.schema).size() <= kInlineBytes)
            return written.schema;
        return reference_to(written);
    }
    if (written_.size() > kMaxSets || depth_ >= kMaxDepth)
        document_.refuse(key.front(), "the schema is too large or nested too deeply");
    ++depth_;
    auto schema = write_new(key);
    --depth_;
    written.schema = schema;
    written.finished = true;
    const bool is_shared = is_referred_to && schema && write_json(*schema).size() > kInlineBytes;
    if (!written.referred_to && !is_shared) return schema;
    if (!schema) document_.refuse(key.front(), "no value satisfies it");
    return reference_to(written);
}

std::optional<SchemaJson> SchemaWriter::write_new(const SchemaSet& set) {
    std::vector<SchemaJson> all;
    const SchemaJson& first = *set.front();
    if (set.size() == 1 && has_only(first, "anyOf") && first.at("anyOf").is_array()) {
        // Its branches are shared with other places that refer to them.
        for (const SchemaJson& branch : first.at("anyOf"))
            if (auto schema = write_set({&branch})) all.push_back(std::move(*schema));
    } else {
        for (const SchemaCase& held : schema_cases(document_, set, made_, tell_apart_))
            if (auto schema = write_case(held)) all.push_back(std::move(*schema));
    }
    if (all.empty()) return std::nullopt;
    if (std::find(all.begin(), all.end(), SchemaJson::object()) != all.end())
        return SchemaJson::object();
    std::vector<SchemaJson> distinct;
    for (SchemaJson& each : all)
        if (std::find(distinct.begin(), distinct.end(), each) == distinct.end())
            distinct.push_back(std::move(each));
    return any_of(std::move(distinct));
}

std::vector<SchemaJson> SchemaWriter::shapes_of(const SchemaCase& held) {
    bool typed = false;
    const std::set<std::string> types = types_of(document_, held, typed);
    const ShapeContext context{document_, values_, write_set_, made_, held};
    std::vector<SchemaJson> shapes;
    const auto add = [&](std::optional<SchemaJson> shape) {
        if (shape) shapes.push_back(std::move(*shape));
    };
    for (const std::string& type : types) {
        if (type == "number" || type == "integer") {
            add(number_shape(context, type == "integer"));
        } else if (type == "string") {
            add(string_shape(context, typed));
        } else if (type == "array") {
            add(array_shape(context));
        } else if (type == "object") {
            add(object_shape(context));
        } else {
            shapes.push_back({{"type", type}});
        }
    }
    return shapes;
}

std::optional<SchemaJson> SchemaWriter::write_case(const SchemaCase& held) {
    const auto values = listed_values(document_, held);
    SchemaCase relevant = held;
    if (values) {
        // Only types that are listed matter; what is unsupported of the others does not.
        for (const char* type : {"null", "boolean", "number", "string", "array", "object"}) {
            const bool listed =
                std::any_of(values->begin(), values->end(),
                            [&](const SchemaJson& value) { return type_of(value) == type; });
            if (!listed) relevant.extras.without_types.push_back(type);
        }
    }
    std::vector<SchemaJson> shapes = shapes_of(relevant);
    if (shapes.empty()) return std::nullopt;
    if (values) return with_values(held, *values, any_of(std::move(shapes)));
    for (const SchemaJson* negated : held.extras.negated) negate(negated, shapes);
    if (shapes.empty()) return std::nullopt;
    return any_of(std::move(shapes));
}

std::optional<SchemaJson> SchemaWriter::with_values(const SchemaCase& held,
                                                    std::vector<SchemaJson> values,
                                                    const SchemaJson& shapes) {
    std::erase_if(values, [&](const SchemaJson& value) {
        const auto answer = values_.accepts(shapes, value);
        if (!answer)
            document_.refuse(held.parts[0].node, "it cannot be told whether the listed value " +
                                                     write_json(value) +
                                                     " satisfies what stands beside it");
        return !*answer || is_ruled_out(held, value);
    });
    if (values.empty()) return std::nullopt;
    return SchemaJson{{"enum", values}};
}

bool SchemaWriter::is_ruled_out(const SchemaCase& held, const SchemaJson& value) {
    for (const SchemaJson* negated : held.extras.negated) {
        const auto schema = write_set({negated});
        if (!schema) continue;
        const auto answer = values_.accepts(*schema, value);
        if (!answer) document_.refuse(negated, "\"not\" is not supported here");
        if (*answer) return true;
    }
    return false;
}

// Takes away the values that the negated schema allows.
void SchemaWriter::negate(const SchemaJson* negated, std::vector<SchemaJson>& shapes) {
    const auto schema = write_set({negated});
    if (!schema) return;
    if (schema->empty()) return shapes.clear();
    std::vector<SchemaJson> left;
    for (const SchemaJson& shape : shapes) {
        if (values_.are_disjoint(shape, *schema)) {
            left.push_back(shape);
            continue;
        }
        const std::string type = shape.value("type", "");
        const auto theirs = values_.of_type(*schema, type == "integer" ? "number" : type);
        const bool all_of_type =
            theirs && std::any_of(theirs->begin(), theirs->end(), [&](const SchemaJson& each) {
                return each.size() == 1 && each.contains("type") &&
                       (each.at("type") == type ||
                        (type == "integer" && each.at("type") == "number"));
            });
        if (all_of_type) continue;
        if (type == "boolean" && theirs && theirs->size() == 1 &&
            theirs->front().contains("enum")) {
            SchemaJson values = SchemaJson::array();
            for (const bool value : {false, true})
                if (values_.accepts(*schema, SchemaJson(value)) == std::optional(false))
                    values.push_back(value);
            if (!values.empty()) left.push_back({{"enum", values}});
            continue;
        }
        if (type == "object") {
            std::vector<SchemaJson> one = {shape};
            negate_property(negated, one);
            left.insert(left.end(), one.begin(), one.end());
            continue;
        }
        document_.refuse(negated, "\"not\" (or \"if\") of this is not supported");
    }
    shapes = std::move(left);
}

// {"properties": {"kind": {"const": "a"}}, "required": ["kind"]}, negated: the kind is another one.
void SchemaWriter::negate_property(const SchemaJson* negated, std::vector<SchemaJson>& shapes) {
    const auto refuse = [&] {
        document_.refuse(negated, "\"not\" (or \"if\") of this is not supported");
    };
    const SchemaJson properties = negated->value("properties", SchemaJson::object());
    const SchemaJson required = negated->value("required", SchemaJson::array());
    for (const auto& [key, value] : negated->items())
        if (key != "properties" && key != "required" && key != "type") refuse();
    if (!properties.is_object() || properties.size() != 1 || required.size() > 1) refuse();
    const std::string name = properties.begin().key();
    if (!required.empty() && required[0] != name) refuse();
    const auto schema = write_set({&negated->at("properties").at(name)});
    std::vector<SchemaJson> left;
    for (SchemaJson shape : shapes) {
        if (!shape.contains("properties") || !shape.at("properties").contains(name)) refuse();
        SchemaJson& mine = shape["properties"][name];
        SchemaJson listed = mine.contains("enum") ? mine.at("enum") : SchemaJson::array();
        if (mine == SchemaJson{{"type", "boolean"}}) listed = SchemaJson::array({false, true});
        if (listed.empty() || !schema) refuse();
        SchemaJson values = SchemaJson::array();
        for (const SchemaJson& value : listed) {
            const auto answer = values_.accepts(*schema, value);
            if (!answer) refuse();
            if (!*answer) values.push_back(value);
        }
        SchemaJson names = shape.value("required", SchemaJson::array());
        const bool is_required = std::find(names.begin(), names.end(), name) != names.end();
        if (values.empty()) {
            // Then it is not there, which satisfies the negated schema unless that requires it.
            if (is_required || required.empty()) continue;
            shape["properties"].erase(name);
            shape["additionalProperties"] = false;
        } else {
            mine = {{"enum", values}};
            if (required.empty() && !is_required) names.push_back(name);
            if (!names.empty()) shape["required"] = names;
        }
        left.push_back(std::move(shape));
    }
    shapes = std::move(left);
}

std::vector<SchemaBranch> SchemaWriter::tell_apart(const SchemaJson* node) {
    std::vector<SchemaBranch> branches;
    std::vector<SchemaJson> written;
    for (const SchemaJson& branch : node->at("oneOf")) {
        auto schema = write_set({&branch});
        if (!schema) continue;
        written.push_back(std::move(*schema));
        branches.push_back({{&branch}, {}});
    }
    bool apart = true;
    for (size_t i = 0; apart && i < written.size(); ++i)
        for (size_t j = i + 1; apart && j < written.size(); ++j)
            apart = values_.are_disjoint(written[i], written[j]);
    if (!apart) tell_types_apart(node, written, branches);
    return branches;
}

void SchemaWriter::tell_types_apart(const SchemaJson* node, const std::vector<SchemaJson>& written,
                                    std::vector<SchemaBranch>& branches) {
    for (const char* type : {"null", "boolean", "number", "string", "array", "object"}) {
        std::vector<SchemaJson> mine;  // one a branch; null: it has none of the type
        bool known = true;
        size_t unconstrained = 0;
        for (const SchemaJson& each : written) {
            const auto shapes = values_.of_type(each, type);
            known = known && shapes.has_value();
            mine.push_back(!shapes || shapes->empty() ? SchemaJson() : any_of(*shapes));
            if (mine.back() == SchemaJson{{"type", type}}) ++unconstrained;
        }
        bool apart = known;
        for (size_t i = 0; apart && i < mine.size(); ++i)
            for (size_t j = i + 1; apart && j < mine.size(); ++j)
                apart = mine[i].is_null() || mine[j].is_null() ||
                        values_.are_disjoint(mine[i], mine[j]);
        if (apart) continue;
        if (known && unconstrained > 1) {
            // Each such value satisfies two branches.
            for (SchemaBranch& branch : branches) branch.extras.without_types.emplace_back(type);
        } else if (known && std::string(type) == "object") {
            tell_objects_apart(node, mine, branches);
        } else {
            document_.refuse(node,
                             "\"oneOf\" is supported only where no value satisfies two of its "
                             "branches; use \"anyOf\"");
        }
    }
}

// A branch goes without a property that another one requires.
void SchemaWriter::tell_objects_apart(const SchemaJson* node,
                                      const std::vector<SchemaJson>& written,
                                      std::vector<SchemaBranch>& branches) {
    const auto refuse = [&] {
        document_.refuse(node,
                         "\"oneOf\" is supported only where no value satisfies two of its "
                         "branches; use \"anyOf\"");
    };
    std::vector<bool> dropped(branches.size(), false);
    for (size_t i = 0; i < branches.size(); ++i) {
        for (size_t j = 0; j < branches.size(); ++j) {
            if (i == j || written[i].is_null() || written[j].is_null()) continue;
            if (values_.are_disjoint(written[i], written[j])) continue;
            if (!written[j].contains("type") && !written[j].contains("enum")) refuse();
            std::optional<std::string> name;
            const SchemaJson mine = written[i].value("required", SchemaJson::array());
            for (const SchemaJson& theirs : written[j].value("required", SchemaJson::array()))
                if (std::find(mine.begin(), mine.end(), theirs) == mine.end())
                    name = theirs.get<std::string>();
            if (name) {
                branches[i].extras.absent.push_back(*name);
            } else {
                dropped[i] = true;
            }
        }
    }
    if (std::all_of(dropped.begin(), dropped.end(), [](bool each) { return each; })) refuse();
    for (size_t i = 0; i < branches.size(); ++i)
        if (dropped[i]) branches[i].extras.without_types.emplace_back("object");
}

}  // namespace nvllm
