#include "quern/lang/parse.h"

#include <fmt/format.h>

#include <atomic>
#include <new>
#include <type_traits>

#include "quern/lang/messages.h"
#include "quern/lang/parser.h"
#include "quern/support/check.h"

namespace quern::lang {

static_assert(words_are_distinct());

namespace {

/// Memory that nobody has touched: of a long text most of what it could need is never used.
template <class T>
class Untouched {
public:
    explicit Untouched(std::size_t count)
        : data_(static_cast<T*>(::operator new(count * sizeof(T)))) {
        static_assert(std::is_trivially_copyable_v<T>);
    }
    ~Untouched() { ::operator delete(data_); }
    Untouched(const Untouched&) = delete;
    Untouched& operator=(const Untouched&) = delete;

    T* data() { return data_; }

private:
    T* data_;
};

/// The memory of a parse at run time.
struct Buffers {
    explicit Buffers(std::uint32_t size)
        : capacity(size),
          tokens(capacity.tokens),
          nodes(capacity.nodes),
          node_names(capacity.nodes),
          names(capacity.names),
          buckets(capacity.buckets),
          bindings(capacity.bindings),
          bound(capacity.bound) {}

    Capacity capacity;
    Untouched<Token> tokens;
    Untouched<Node> nodes;
    Untouched<std::uint32_t> node_names;
    Untouched<NameEntry> names;
    std::vector<std::uint32_t> buckets;
    Untouched<Binding> bindings;
    std::vector<std::uint32_t> bound;
};

}  // namespace

std::shared_ptr<const Source> parse(std::string text, const ParseOptions& options,
                                    Diagnostics& diagnostics) {
    if (text.size() > kMaxTextSize) {
        raise(ValueError(fmt::format("[parse] expected a text of at most {} bytes, got {}",
                                     kMaxTextSize, text.size())));
    }
    Buffers buffers(static_cast<std::uint32_t>(text.size()));
    Workspace space;
    space.text = text.data();
    space.size = static_cast<std::uint32_t>(text.size());
    space.tokens = buffers.tokens.data();
    space.nodes = buffers.nodes.data();
    space.node_capacity = buffers.capacity.nodes;
    space.node_names = buffers.node_names.data();
    space.names = buffers.names.data();
    space.buckets = buffers.buckets.data();
    space.bucket_mask = buffers.capacity.buckets - 1;
    space.bindings = buffers.bindings.data();
    space.bound = buffers.bound.data();

    Issues issues;
    const Parsed parsed = Parser(space, issues, options.pedantic).run();

    auto source = std::make_shared<Source>();
    source->text = std::move(text);
    source->file = options.file;
    source->first_line = options.first_line;
    source->stands_for = options.stands_for;
    static std::atomic<std::uint64_t> serials{0};
    source->serial = ++serials;
    source->nodes.assign(buffers.nodes.data(), buffers.nodes.data() + parsed.node_count);
    source->root = parsed.root;
    for (int i = 0; i < issues.count; ++i) describe(issues.list[i], source->tree(), diagnostics);
    return source;
}

}  // namespace quern::lang
