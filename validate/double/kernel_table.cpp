/* Which static variables are shared memory, and whose: from the symbol table of the program itself. A local
   variable of a function is called _ZZ<function>E<variable> there (Itanium C++ ABI, 5.1.6), where the
   function is called _Z<function>; a function with a variable double_shared_<n> (double.h) has shared ones.
 */
#include "state.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <elf.h>
#include <link.h>
#include <map>
#include <string>
#include <string_view>

namespace
{
struct symbol {
    std::string_view name;
    char *begin;
    size_t bytes;
};

struct table {
    bool read = false;
    std::vector<char> file;
    std::map<const void *, std::string> names;     /* of all functions */
    std::map<const void *, std::string> functions; /* <function>, of those with shared variables */
    std::map<std::string, std::vector<shared_range>> variables; /* by <function> */
    shared_range data = { nullptr, 0 };
};

std::vector<char> contents(const char *path)
{
    std::vector<char> bytes;
    FILE *file = fopen(path, "rb");
    if (!file) return bytes;
    char part[65536];
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) bytes.insert(bytes.end(), part, part + n);
    fclose(file);
    return bytes;
}

/* Of the program, which dl_iterate_phdr names first: where it was loaded, and its writable segment. */
int first_object(struct dl_phdr_info *info, size_t, void *result)
{
    table *t = static_cast<table *>(result);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto &part = info->dlpi_phdr[i];
        if (part.p_type != PT_LOAD || !(part.p_flags & PF_W)) continue;
        t->data = { reinterpret_cast<char *>(info->dlpi_addr + part.p_vaddr), part.p_memsz };
    }
    return 1;
}
int load_address(struct dl_phdr_info *info, size_t, void *result)
{
    *static_cast<uintptr_t *>(result) = info->dlpi_addr;
    return 1;
}

constexpr std::string_view marker = "double_shared_";

void read_symbols(table &t)
{
    uintptr_t base = 0;
    dl_iterate_phdr(first_object, &t);
    dl_iterate_phdr(load_address, &base);
    t.file = contents("/proc/self/exe");
    if (t.file.size() < sizeof(Elf64_Ehdr)) return;
    const char *image = t.file.data();
    const auto *head = reinterpret_cast<const Elf64_Ehdr *>(image);
    const auto *sections = reinterpret_cast<const Elf64_Shdr *>(image + head->e_shoff);
    std::vector<symbol> functions, locals;
    for (int i = 0; i < head->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB) continue;
        const auto *symbols = reinterpret_cast<const Elf64_Sym *>(image + sections[i].sh_offset);
        const char *names = image + sections[sections[i].sh_link].sh_offset;
        for (size_t s = 0; s < sections[i].sh_size / sizeof *symbols; s++) {
            const Elf64_Sym &it = symbols[s];
            const std::string_view name = names + it.st_name;
            const int type = ELF64_ST_TYPE(it.st_info);
            if (it.st_shndx == SHN_UNDEF) continue;
            const symbol found = { name, reinterpret_cast<char *>(base + it.st_value), it.st_size };
            if (type == STT_FUNC) functions.push_back(found);
            if (type != STT_OBJECT || name.substr(0, 3) != "_ZZ") continue;
            const size_t mark = name.find(marker);
            if (mark == name.npos) {
                locals.push_back(found);
                continue;
            }
            size_t end = mark; /* of the function's name: an E, before the length of the variable's */
            while (end > 3 && name[end - 1] >= '0' && name[end - 1] <= '9') end--;
            t.variables[std::string(name.substr(3, end - 1 - 3))];
        }
    }
    for (auto &[function, variables] : t.variables)
        for (const symbol &local : locals)
            if (local.name.substr(3).substr(0, function.size() + 1) == function + "E")
                variables.push_back({ local.begin, local.bytes });
    for (const symbol &it : functions) {
        const bool mangled = it.name.substr(0, 2) == "_Z"; /* else a C function */
        const std::string name =
            mangled ? std::string(it.name.substr(2)) : std::to_string(it.name.size()) + std::string(it.name);
        if (t.variables.count(name)) t.functions[it.begin] = name;
        t.names[it.begin] = it.name;
    }
    if (functions.empty())
        failure("the program has no symbol table: its kernels' shared memory is unknown (was it stripped?)");
}

table &the_table()
{
    static table &t = *new table;
    if (!t.read) {
        t.read = true;
        read_symbols(t);
    }
    return t;
}

auto &launched = *new std::map<const void *, kernel_facts>;

/* A kernel's own variables and those of functions that are not known as kernels: it may call them. */
void list_variables(const void *kernel, kernel_facts &facts)
{
    const table &t = the_table();
    facts.variables.clear();
    facts.static_shared = 0;
    for (const auto &[function, variables] : t.variables) {
        bool others = false, own = false;
        for (const auto &[address, name] : t.functions) {
            if (name != function) continue;
            own = own || address == kernel;
            others = others || (address != kernel && launched.count(address));
        }
        for (const shared_range &variable : variables) {
            if (!others) facts.variables.push_back(variable);
            if (own) facts.static_shared += variable.bytes;
        }
    }
}

/* ns::kernel<64>; "" where the function has no symbol */
std::string readable(const void *function)
{
    const auto found = the_table().names.find(function);
    if (found == the_table().names.end()) return "";
    int status = 0;
    char *text = abi::__cxa_demangle(found->second.c_str(), nullptr, nullptr, &status);
    std::string name = text ? text : found->second;
    free(text);
    for (const char *left_out :
        { "void ", "(anonymous namespace)::" }) /* templates bear their result's type */
        if (name.find(left_out) == 0) name = name.substr(strlen(left_out));
    return name.substr(0, name.find('('));
}
} // namespace

const char *kernel_name(const double_launch &launch)
{
    const std::string &name = kernel_of(launch.kernel).name;
    return name.empty() ? launch.name : name.c_str();
}

kernel_facts &kernel_of(const void *function)
{
    const auto found = launched.find(function);
    if (found != launched.end()) return found->second;
    launched[function].name = readable(function);
    for (auto &[kernel, facts] : launched) list_variables(kernel, facts);
    return launched[function];
}

shared_range program_data()
{
    return the_table().data;
}
