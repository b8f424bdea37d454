// Grammars of RFC 3339 (dates), 5321 (mail), 1123 (hosts), 4291 (addresses), 3986 and 3987 (URIs
// and IRIs), 6570 (templates), 6901 (pointers) and 4122 (UUIDs), as far as a regular expression
// says them. Where one cannot, it says less: what it matches has the format.
#include "lib/grammar/schema/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace nvllm {
namespace {

// Months have the days that they have; the 29th of February is left to years that 4 divides, and
// of centuries 400.
std::string date() {
    const std::string leap =
        "(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
    return "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
           "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
           leap + "-02-29)";
}

// Leap seconds are in UTC's last minute of a day; said here for "Z" and a zero offset alone.
std::string time() {
    const std::string minute = "[0-5][0-9]";
    const std::string offset = "[-+](?:[01][0-9]|2[0-3]):" + minute;
    const std::string fraction = "(?:[.][0-9]+)?";
    return "(?:(?:[01][0-9]|2[0-3]):" + minute + ":" + minute + fraction + "(?:[Zz]|" + offset +
           ")|23:59:60" + fraction + "(?:[Zz]|[-+]00:00))";
}

std::string ipv4() {
    const std::string byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
    return "(?:" + byte + "[.]){3}" + byte;
}

// Eight groups, or fewer with "::"; the last two may be an IPv4 address.
std::string ipv6() {
    const std::string group = "[0-9A-Fa-f]{1,4}";
    const std::string last = "(?:" + group + ":" + group + "|" + ipv4() + ")";
    std::string forms = "(?:" + group + ":){6}" + last;
    // `before` groups, "::", `after` groups and the last two.
    for (int before = 0; before <= 5; ++before) {
        const int after = 5 - before;
        const std::string head =
            before == 0 ? "" : fmt::format("{}(?::{}){{0,{}}}", group, group, before - 1);
        const std::string begin = before == 0 ? "" : "(?:" + head + ")?";
        forms += "|" + begin +
                 "::" + (after == 0 ? "" : fmt::format("(?:{}:){{{}}}", group, after)) + last;
    }
    forms += fmt::format("|(?:{}(?::{}){{0,5}})?::{}", group, group, group);
    forms += fmt::format("|(?:{}(?::{}){{0,6}})?::", group, group);
    return "(?:" + forms + ")";
}

// Labels of at most 63 characters.
std::string hostname() {
    const std::string label = "[0-9A-Za-z](?:[-0-9A-Za-z]{0,61}[0-9A-Za-z])?";
    return "(?:" + label + "[.])*" + label;
}

// An address of at most kLongestEmail characters has no part that is too long.
constexpr int64_t kLongestEmail = 64;

std::string email() {
    const std::string atom = "[-0-9A-Za-z!#$%&'*+/=?^_`{|}~]+";
    const std::string label = "[0-9A-Za-z]+(?:-+[0-9A-Za-z]+)*";
    return fmt::format("{0}(?:[.]{0})*@(?:{1}(?:[.]{1})*|\\[{2}\\]|\\[IPv6:{3}\\])", atom, label,
                       ipv4(), ipv6());
}

// The parts of RFC 3986; `more`: characters beyond ASCII, for IRIs.
struct Uri {
    explicit Uri(std::string_view more)
        : unreserved(fmt::format("-0-9A-Za-z._~{}", more)),
          encoded("%[0-9A-Fa-f]{2}"),
          segment_character(fmt::format("(?:[{}!$&'()*+,;=:@]|{})", unreserved, encoded)) {}

    std::string authority() const {
        const std::string user = fmt::format("(?:(?:[{}!$&'()*+,;=:]|{})*@)?", unreserved, encoded);
        const std::string name = fmt::format("(?:[{}!$&'()*+,;=]|{})*", unreserved, encoded);
        return user + "(?:\\[" + ipv6() + "\\]|" + name + ")(?::[0-9]*)?";
    }
    std::string end() const {
        return fmt::format("(?:[?](?:{0}|[/?])*)?(?:#(?:{0}|[/?])*)?", segment_character);
    }
    std::string absolute() const {
        return fmt::format(
            "[A-Za-z][-0-9A-Za-z+.]*:(?://{0}(?:/{1}*)*|/(?:{1}+(?:/{1}*)*)?|"
            "{1}+(?:/{1}*)*|){2}",
            authority(), segment_character, end());
    }
    std::string relative() const {
        const std::string first =
            fmt::format("(?:[{}!$&'()*+,;=@]|{})+", unreserved, encoded);  // no colon
        return fmt::format("(?://{0}(?:/{1}*)*|/(?:{1}+(?:/{1}*)*)?|{2}(?:/{1}*)*|){3}",
                           authority(), segment_character, first, end());
    }
    std::string reference() const { return "(?:" + absolute() + "|" + relative() + ")"; }

    std::string unreserved;
    std::string encoded;
    std::string segment_character;
};

constexpr std::string_view kBeyondAscii = "\\u{a0}-\\u{d7ff}\\u{f900}-\\u{fdcf}\\u{fdf0}-\\u{ffef}";

std::string uri_template() {
    const std::string encoded = "%[0-9A-Fa-f]{2}";
    const std::string name = "(?:[0-9A-Za-z_]|" + encoded + ")+(?:[.](?:[0-9A-Za-z_]|" + encoded +
                             ")+)*(?:\\*|:[1-9][0-9]{0,3})?";
    return "(?:[-!#$&()*+,./0-9:;=?@A-Z\\[\\]_a-z~]|" + encoded + "|\\{[+#./;?&]?" + name + "(?:," +
           name + ")*\\})*";
}

std::string duration() {
    const std::string time = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)";
    return "P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:" + time +
           ")?|" + time + ")";
}

const std::string kPointer = "(?:/(?:[^/~]|~[01])*)*";

}  // namespace

std::optional<FormatPattern> format_pattern(std::string_view format) {
    if (format == "date") return FormatPattern{date()};
    if (format == "time") return FormatPattern{time()};
    if (format == "date-time") return FormatPattern{date() + "[Tt]" + time()};
    if (format == "duration") return FormatPattern{duration()};
    if (format == "email") return FormatPattern{email(), kLongestEmail};
    if (format == "hostname") return FormatPattern{hostname(), 253};
    if (format == "ipv4") return FormatPattern{ipv4()};
    if (format == "ipv6") return FormatPattern{ipv6()};
    if (format == "uri") return FormatPattern{Uri("").absolute()};
    if (format == "uri-reference") return FormatPattern{Uri("").reference()};
    if (format == "iri") return FormatPattern{Uri(kBeyondAscii).absolute()};
    if (format == "iri-reference") return FormatPattern{Uri(kBeyondAscii).reference()};
    if (format == "uri-template") return FormatPattern{uri_template()};
    if (format == "uuid")
        return FormatPattern{
            "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"};
    if (format == "json-pointer") return FormatPattern{kPointer};
    if (format == "relative-json-pointer")
        return FormatPattern{"(?:0|[1-9][0-9]*)(?:#|" + kPointer + ")"};
    return std::nullopt;
}

bool is_refused_format(std::string_view format) {
    constexpr std::string_view kRefused[] = {"idn-email", "idn-hostname", "regex"};
    return std::find(std::begin(kRefused), std::end(kRefused), format) != std::end(kRefused);
}

}  // namespace nvllm
