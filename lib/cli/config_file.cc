// Walks a YAML document and sets options from it. The only file that knows yaml-cpp.
//
// Scalars are taken as they are written, not as YAML 1.1 would read them (where 012 is ten and "no"
// is false), and then read like flags. yaml-cpp keeps both of two equal keys and answers with the
// first, so keys are checked here.
#include "lib/cli/config_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>

#include "lib/base/file.h"
#include "lib/cli/config_sections.h"

namespace nvllm {
namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t{1} << 20;

class ConfigReader {
  public:
    ConfigReader(OptionSet& options, const std::string& source_name)
        : options_(options), source_name_(source_name) {}

    // `section` is empty at the top.
    void read_mapping(const YAML::Node& mapping, const std::string& section) {
        const bool has_path = mapping["path"].IsDefined();
        for (const auto& entry : mapping) {
            if (!entry.first.IsScalar()) fail(entry.first, "keys must be plain words");
            if (section.empty()) {
                read_top(entry.first, entry.second);
            } else {
                read_key(entry.first, entry.second, section, has_path);
            }
        }
    }

  private:
    void read_top(const YAML::Node& key, const YAML::Node& value) {
        const std::string& name = key.Scalar();
        const bool is_section = sections().has_section(name) || is_own_section(name);
        if (is_section && (value.IsMap() || value.IsNull())) {
            remember(key, "section " + name);
            if (value.IsMap()) read_mapping(value, name);
            return;
        }
        BoundOption* option = options_.find(name);
        if (option == nullptr && is_section) {
            fail(key, fmt::format("'{}' is a section: its keys belong below it", name));
        }
        if (option == nullptr && take_foreign(key, value)) return;
        if (option == nullptr) fail(key, unknown_key(name, ""));
        set(key, value, *option);
    }

    // A key that is another program's flag; false when it is none.
    bool take_foreign(const YAML::Node& key, const YAML::Node& value) {
        std::vector<std::string> arguments = {"--" + with_dashes(key.Scalar())};
        if (value.IsScalar()) arguments[0] += "=" + value.Scalar();
        if (value.IsSequence()) {
            for (const YAML::Node& element : value) arguments.push_back(element.Scalar());
        }
        std::optional<ForeignReading> reading;
        try {
            reading = options_.read_foreign(arguments, false);
        } catch (const Error& error) {
            fail(key, error.what());
        }
        if (!reading) return false;
        std::vector<std::string> texts;
        for (const std::string& argument : reading->instead) texts.push_back(value_of(argument));
        remember(key, with_dashes(key.Scalar()));
        if (texts.empty()) return true;
        named_by(reading->instead[0])
            .set(texts, OptionOrigin::file, place(key), ErrorKind::bad_config);
        return true;
    }

    // "--name=value", "--name" and "--no-name", of an option that there is.
    BoundOption& named_by(const std::string& argument) {
        const std::string name = argument.substr(2, argument.find('=') - 2);
        BoundOption* option = options_.find(name);
        return option != nullptr ? *option : *options_.find(name.substr(3));
    }
    std::string value_of(const std::string& argument) {
        const size_t equals = argument.find('=');
        if (equals != std::string::npos) return argument.substr(equals + 1);
        return options_.find(argument.substr(2)) != nullptr ? "true" : "false";
    }

    void read_key(const YAML::Node& key, const YAML::Node& value, const std::string& section,
                  bool has_path) {
        const std::string& name = key.Scalar();
        const std::string_view shared = sections().option_of(section, name, has_path);
        BoundOption* option = shared.empty() ? options_.find(name) : options_.find_exact(shared);
        const bool belongs =
            option != nullptr && (!shared.empty() || option->field().section == section);
        if (belongs) return set(key, value, *option);
        if (!shared.empty() || sections().lists_option(section, name)) {
            return remember(key, shared.empty() ? with_dashes(name) : std::string(shared));
        }
        if (option == nullptr) fail(key, unknown_key(name, section));
        fail(key, fmt::format("'{}' does not belong into section '{}'", name, section));
    }

    void set(const YAML::Node& key, const YAML::Node& value, BoundOption& option) {
        remember(key, option.field().name);
        if (value.IsNull()) return;
        option.set(texts_of(key, value, option.field()), OptionOrigin::file, place(key),
                   ErrorKind::bad_config);
    }

    std::vector<std::string> texts_of(const YAML::Node& key, const YAML::Node& value,
                                      const OptionField& field) {
        if (value.IsScalar()) return {value.Scalar()};
        const std::string& name = key.Scalar();
        if (value.IsMap())
            fail(key, fmt::format("'{}' is a mapping; expected {}", name, field.expectation()));
        if (!field.is_list)
            fail(key, fmt::format("'{}' is a list; expected {}", name, field.expectation()));
        std::vector<std::string> texts;
        for (const YAML::Node& element : value) {
            if (!element.IsScalar())
                fail(element, fmt::format("an element of '{}' is not a plain value", name));
            texts.push_back(element.Scalar());
        }
        return texts;
    }

    const ConfigSections& sections() const { return options_.sections(); }

    bool is_own_section(const std::string& name) const {
        const auto& all = options_.all();
        return std::any_of(all.begin(), all.end(), [&](const BoundOption& option) {
            return option.field().section == name;
        });
    }

    // Suggests what may stand in the same place.
    std::optional<std::string> nearest_key(const std::string& name,
                                           const std::string& section) const {
        std::vector<std::string> known = sections().keys_of(section);
        if (section.empty()) {
            if (const auto option = options_.nearest(name)) return option;
            for (const ConfigKey& key : sections().keys) known.push_back(key.section);
        }
        for (const BoundOption& option : options_.all()) {
            if (option.field().section == section) known.push_back(option.field().name);
        }
        return nearest_name(name, known);
    }

    std::string unknown_key(const std::string& name, const std::string& section) const {
        const auto nearest = nearest_key(name, section);
        return fmt::format("unknown key '{}'{}{}", name,
                           section.empty() ? "" : " in section '" + section + "'",
                           nearest ? "; did you mean '" + *nearest + "'?" : "");
    }

    // `name` is the same for every spelling of a key.
    void remember(const YAML::Node& key, const std::string& name) {
        const int line = key.Mark().line + 1;
        const auto [before, is_first] = lines_.try_emplace(name, line);
        if (is_first) return;
        fail(key, fmt::format("'{}' was already set in line {}", key.Scalar(), before->second));
    }

    std::string place(const YAML::Node& node) const {
        return fmt::format("{}:{}", source_name_, node.Mark().line + 1);
    }

    [[noreturn]] void fail(const YAML::Node& node, const std::string& reason) const {
        throw Error(ErrorKind::bad_config, place(node) + ": " + reason);
    }

    OptionSet& options_;
    const std::string& source_name_;
    std::map<std::string, int> lines_;
};

}  // namespace

void apply_config_file(OptionSet& options, const std::filesystem::path& path) {
    apply_config_text(options, read_file(path, kMaxConfigBytes), path.string());
}

void apply_config_text(OptionSet& options, const std::string& text,
                       const std::string& source_name) {
    try {
        const std::vector<YAML::Node> documents = YAML::LoadAll(text);
        if (documents.empty() || documents[0].IsNull()) return;
        if (documents.size() > 1 || !documents[0].IsMap()) {
            throw Error(ErrorKind::bad_config,
                        source_name + ": expected one mapping of option names to values");
        }
        ConfigReader(options, source_name).read_mapping(documents[0], "");
    } catch (const YAML::Exception& error) {
        throw Error(ErrorKind::bad_config, fmt::format("{}:{}: not valid YAML: {}", source_name,
                                                       error.mark.line + 1, error.msg));
    }
}

}  // namespace nvllm
