// Values that a model wrote as plain text, made into JSON by the types in the functions' schemas.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nvllm {
struct OfferedTool;
}

namespace nvllm::output {

class ParameterTypes {
  public:
    explicit ParameterTypes(const std::vector<OfferedTool>& tools);

    // `value` as JSON text of the type that the schema names: text where it names text, and where
    // nothing else fits. Without a schema: what it is as JSON, unless that is a string.
    std::string json_of(const std::string& function, const std::string& parameter,
                        std::string_view value) const;

    // Whether json_of() quotes every value that begins with `value`.
    bool is_text(const std::string& function, const std::string& parameter,
                 std::string_view value) const;

    // Whether the function's schema is known and has no such parameter.
    bool is_foreign(const std::string& function, const std::string& parameter) const;
    // Whether `given` has all parameters that the function's schema requires.
    bool has_required(const std::string& function, const std::vector<std::string>& given) const;

  private:
    struct Function {
        std::map<std::string, std::vector<std::string>> types;  // of each parameter
        std::vector<std::string> required;
    };
    const Function* find(const std::string& function) const;
    std::map<std::string, Function> functions_;
};

// An object of values that are JSON text already. Of a name that comes twice the last one counts.
class ArgumentsText {
  public:
    void set(const std::string& name, std::string json);
    std::string json() const;
    std::vector<std::string> names() const;

  private:
    std::vector<std::pair<std::string, std::string>> members_;
};

}  // namespace nvllm::output
