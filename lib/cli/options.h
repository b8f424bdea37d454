// The options of one program: the lists of its structs, bound to objects, with where each value
// comes from.
//
//     OptionSet options;
//     options.add(list, config);  // config must outlive options
//
// Flags, environment, configuration files, help, completion and printing all read these lists;
// nothing else restates a field.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/error.h"
#include "lib/cli/config_sections.h"
#include "lib/cli/foreign_flags.h"
#include "lib/cli/option_list.h"

namespace nvllm {

// Where the value in force comes from; later ones win.
enum class OptionOrigin { built_in, file, environment, flag };

// A field bound to an object, and where its value comes from.
class BoundOption {
  public:
    BoundOption(TypedOptionField typed, void* object);

    const OptionField& field() const { return typed_.field; }
    OptionOrigin origin() const { return origin_; }
    // "--max-num-seqs", "NVLLM_MAX_NUM_SEQS", "serve.yaml:3"; empty for built-in values.
    const std::string& where() const { return where_; }
    std::vector<std::string> texts() const { return typed_.get(typed_.field, object_); }
    // The built-in default, as help shows it: empty when there is none to show.
    const std::string& default_text() const { return default_text_; }

    // Throws Error{kind} "<where>: '<text>' is not <expectation>", for files with the key after the
    // place.
    void set(std::span<const std::string> texts, OptionOrigin origin, std::string where,
             ErrorKind kind);
    // How the value in force was read, where that may surprise; empty from then on.
    std::string take_note() { return std::exchange(note_, {}); }

  private:
    TypedOptionField typed_;
    void* object_;
    OptionOrigin origin_ = OptionOrigin::built_in;
    std::string where_;
    std::string default_text_;
    std::string note_;
};

// All options of one program. Names are unique across its lists.
class OptionSet {
  public:
    // `object` holds the defaults and must outlive the set.
    template <typename Struct>
    void add(const OptionList<Struct>& list, Struct& object) {
        for (const TypedOptionField& typed : list.fields()) add(typed, &object);
    }

    std::span<BoundOption> all() { return options_; }
    std::span<const BoundOption> all() const { return options_; }

    // By name or alias, with dashes or underscores; null when there is none.
    BoundOption* find(std::string_view name);
    // By its name alone.
    BoundOption* find_exact(std::string_view name);
    // What other programs' flags mean in this one. The texts of the table must outlive the set.
    void add_foreign(std::span<const ForeignFlag> table);
    // As read_foreign_flag(); its note joins the set's.
    std::optional<ForeignReading> read_foreign(std::span<const std::string> arguments, bool is_own);

    // The sections of configuration files that the program shares with others.
    void share(const ConfigSections& sections) { sections_ = sections; }
    const ConfigSections& sections() const { return sections_; }

    // Sentences for people about what was given: what does nothing here, or was read in a way that
    // may surprise.
    void note(std::string text) { notes_.push_back(std::move(text)); }
    std::vector<std::string> take_notes();

    // Names and aliases.
    std::vector<std::string> names() const;
    // The known name or alias nearest to this unknown one, if any is near.
    std::optional<std::string> nearest(std::string_view name) const;

  private:
    void add(const TypedOptionField& typed, void* object);
    std::vector<BoundOption> options_;
    std::vector<ForeignFlag> foreign_;
    ConfigSections sections_;
    std::vector<std::string> notes_;
};

// "NVLLM_MAX_NUM_SEQS" for "max-num-seqs".
std::string environment_name(std::string_view option_name);

// Looks up one variable; empty when it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;
EnvironmentLookup process_environment();

// Sets every option whose variable is set and not empty; the elements of lists are separated by
// commas. Throws bad_config that names the variable.
void apply_environment(OptionSet& options, const EnvironmentLookup& environment);

// The names of all variables of this process.
std::vector<std::string> process_variables();
// Notes each of them that begins with NVLLM_, is read by no program and is nearly an option's.
void note_misspelt_variables(OptionSet& options, std::span<const std::string> variables);

// Every option with its value and where it comes from, grouped as in --help: what --print-config
// shows. Valid as a configuration file, but for secrets, of which there is only kHiddenValue.
std::string print_as_yaml(const OptionSet& options);
inline constexpr std::string_view kHiddenValue = "***";
// The values as one JSON object by name; null for what is not set.
std::string print_as_json(const OptionSet& options);

}  // namespace nvllm
