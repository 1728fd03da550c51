// Layouts as Python sees them: see _replay/_paths.py. Start reading at `bind_replay_paths`.
#include "autograd/meta.h"
#include "bind/replay_paths.h"
#include "for_size.h"
#include "runtime/random.h"

namespace adjoint::bind {

namespace nb = nanobind;

namespace {

using namespace paths;

/// What `_again.py` tells apart.
const char* name_of(By access) {
  switch (access) {
    case By::Item:
      return "item";
    case By::Key:
      return "key";
    case By::Value:
      return "value";
    case By::Attribute:
      return "attribute";
    case By::Slot:
      return "slot";
    case By::Content:
      return "content";
    case By::Defaults:
      return "__defaults__";
    case By::KeywordDefaults:
      return "__kwdefaults__";
    case By::Name:
      return "name";
    case By::ClassName:
      return "class";
    case By::Element:
      return "element";
    case By::Argument:
      return "argument";
    case By::Keyword:
      return "keyword";
    default:
      return "";
  }
}
const char* name_of(Guard guard) {
  switch (guard) {
    case Guard::Node:
      return "node";
    case Guard::Tensor:
      return "tensor";
    case Guard::Absent:
      return "absent";
    case Guard::Any:
      return "any";
    case Guard::Weak:
      return "weak";
    case Guard::Address:
    case Guard::Code:
    case Guard::Builtin:
      return "unknown";
    case Guard::Varying:
      return "number";
    default:
      return "value";
  }
}

}  // namespace

void bind_replay_paths(nb::module_& m) {
  m.def("_attributes_of", [](nb::handle o) {
    const Kind kind = is_tensor(o.ptr())          ? Kind::Tensor
                      : PyFunction_Check(o.ptr()) ? Kind::Function
                                                  : Kind::Plain;
    nb::object dict = nb::steal(attributes_of(o.ptr(), kind));
    return dict.is_valid() ? dict : nb::none();
  });
  m.def(
      "_versions_of",
      [](nb::list dicts) -> nb::object {
        const size_t count = nb::len(dicts);
        std::vector<uint64_t> versions(count);
        for (size_t i = 0; i < count; ++i) {
          versions[i] = version_of_dict(PyList_GET_ITEM(dicts.ptr(), static_cast<Py_ssize_t>(i)));
          if (!versions[i]) return nb::none();
        }
        return nb::bytes(versions.data(), count * sizeof versions[0]);
      },
      "Numbers that no other states of these dicts have, as bytes; None where there are no such.");
  m.def(
      "_addresses_of",
      [](nb::list pairs) {
        std::vector<PyObject*> all;
        all.reserve(2 * nb::len(pairs));
        for (nb::handle pair : pairs)
          for (Py_ssize_t i = 0; i < 2; ++i) all.push_back(PyTuple_GET_ITEM(pair.ptr(), i));
        return nb::bytes(all.data(), all.size() * sizeof all[0]);
      },
      "Of pairs, the addresses of both, as bytes.");
  const auto path_or_function = [](const Layout& l, int32_t edge) {
    std::string path = l.path(edge);
    return path.empty() ? std::string("the function") : path;
  };
  nb::class_<Layout>(m, "_Layout", "What a function reads of Python: see _replay/_paths.py.",
                     nb::is_weak_referenceable())
      .def(nb::init<>())
      .def("_collect",
           [](Layout& l, nb::object function, nb::tuple args, nb::dict kwargs, nb::dict facts, nb::dict own) {
             if (!l.nodes.empty()) fail("this layout was collected before");
             collect(l, function.ptr(), args.ptr(), kwargs.ptr(), std::move(facts), std::move(own));
           })
      .def("take",
           [](nb::object self, nb::handle function, nb::tuple args, nb::dict kwargs) -> nb::object {
             Layout& l = nb::cast<Layout&>(self);
             Layout with_numbers;
             if (!l.take(function.ptr(), args.ptr(), kwargs.ptr(), with_numbers)) return nb::none();
             if (with_numbers.nodes.empty()) return self;
             nb::object other = self.type()();
             nb::cast<Layout&>(other) = std::move(with_numbers);
             other.attr("_tells") = self.attr("_tells");
             return other;
           })
      .def(
          "match",
          [](Layout& l, nb::handle function, nb::tuple args, nb::dict kwargs, nb::handle into) -> nb::object {
            Walk walk(l);
            l.why.clear();
            if (!walk.call(function.ptr(), args.ptr(), kwargs.ptr())) return nb::none();
            if (PyList_Check(into.ptr())) walk.hold(into.ptr());
            const auto tensors = static_cast<Py_ssize_t>(walk.count());
            const std::vector<Scalar>& numbers = walk.numbers();
            nb::object list = nb::steal(PyList_New(tensors + static_cast<Py_ssize_t>(numbers.size())));
            for (Py_ssize_t i = 0; i < tensors; ++i)
              PyList_SET_ITEM(list.ptr(), i, walk.take(static_cast<size_t>(i)));
            for (size_t i = 0; i < numbers.size(); ++i)
              PyList_SET_ITEM(list.ptr(), tensors + static_cast<Py_ssize_t>(i), from_scalar(numbers[i]));
            return list;
          },
          nb::arg("function"), nb::arg("args"), nb::arg("kwargs"), nb::arg("into") = nb::none(),
          "The tensors as found now, then the numbers that vary; None where something differs: see `why`. "
          "Into the "
          "list `into` go the objects that were looked into: by weak references, where there may be such.")
      .def_prop_ro("_edges",
                   [](const Layout& l) {
                     nb::list r;
                     for (const Edge& e : l.edges)
                       r.append(nb::make_tuple(e.parent, name_of(e.access),
                                               e.key.is_valid() ? e.key : nb::none(), name_of(e.guard),
                                               e.node, e.expected.is_valid() ? e.expected : nb::none()));
                     return r;
                   })
      .def(
          "_passes",
          [](const Layout& l, size_t edge, nb::handle value) {
            return passes(l.edges.at(edge), value.ptr());
          },
          nb::arg("edge"), nb::arg("value").none())
      .def_prop_ro(
          "_hooks",
          [](const Layout& l) {
            nb::list numbers;
            for (size_t i = 0; i < l.nodes.size(); ++i) {
              const auto& n = l.nodes[i];
              if (n.kind != Kind::Tensor || !n.length) continue;
              size_t at = static_cast<size_t>(n.first);
              for (const HookOfPython& h : python_hooks(unwrap(l.objects.at(i).ptr())))
                if (l.edges.at(at++).guard == Guard::Node) numbers.append(h.number);
            }
            return numbers;
          },
          "The numbers of hooks whose code is known, which a pass within the call may run.")
      .def(
          "_number_of",
          [](const Layout& l, nb::handle o) {
            for (size_t i = 1; i < l.objects.size(); ++i)
              if (l.objects[i].is(o)) return static_cast<int64_t>(i);
            return int64_t{-1};
          },
          "The number of an object that was looked into, or -1.")
      .def("_of_tensor",
           [](const Layout& l, size_t number) {
             const TensorGuard& g = l.tensors.at(number);
             return nb::make_tuple(bool(g.flags & TensorImpl::kRequiresGrad), g.grad);
           })
      .def_ro("why", &Layout::why)
      .def_prop_ro("tensors",
                   [](const Layout& l) {
                     nb::list r;
                     for (const Tensor& t : l.found) r.append(nb::steal(wrap(t)));
                     return r;
                   })
      .def_prop_ro("names",
                   [](const Layout& l) {
                     nb::list r;
                     for (size_t i = 0; i < l.tensors.size(); ++i)
                       r.append(l.path_of_tensor(static_cast<int32_t>(i)));
                     return r;
                   })
      .def_prop_ro("values",
                   [](const Layout& l) {
                     nb::list r;
                     for (size_t i = 0; i < l.edges.size(); ++i) {
                       const Edge& e = l.edges[i];
                       if (e.access == By::Key || e.access == By::Base) continue;
                       if (e.guard == Guard::Same || e.guard == Guard::Equal ||
                           (e.guard >= Guard::Int && e.guard <= Guard::Bytes))
                         r.append(nb::make_tuple(l.path(static_cast<int32_t>(i)), e.expected));
                     }
                     return r;
                   })
      .def_prop_ro("numbers",
                   [path_or_function](const Layout& l) {
                     nb::list r;
                     for (int32_t i : l.numbers)
                       r.append(nb::make_tuple(path_or_function(l, i), l.edges[i].expected));
                     return r;
                   })
      .def_prop_ro(
          "unknown",
          [path_or_function](const Layout& l) {
            nb::list r;
            for (const auto& [edge, why] : l.unknown)
              r.append(nb::make_tuple(edge < 0 ? std::string("a class") : path_or_function(l, edge), why));
            return r;
          })
      .def_prop_ro(
          "size",
          [](const Layout& l) { return nb::make_tuple(l.nodes.size(), l.edges.size(), l.tensors.size()); })
      .def(
          "let_vary",
          [](Layout& l, const std::vector<int32_t>& numbers) {
            for (int32_t number : numbers) {
              Edge& e = l.edges[l.numbers.at(static_cast<size_t>(number))];
              if (e.guard == Guard::Varying) continue;
              e.guard = Guard::Varying;
              l.nodes[static_cast<size_t>(e.parent)].varies = e.access == By::Name;
              e.node = static_cast<int32_t>(l.varying.size());
              l.varying.push_back(l.numbers[static_cast<size_t>(number)]);
            }
            l.find_leads();
          },
          "Let numbers, by their places in `numbers`, be any from now on: `match` gives them after the "
          "tensors.")
      .def("release_tensors",
           [](Layout& l) {
             auto objects = std::move(l.objects), children = std::move(l.children);
             auto found = std::move(l.found);
             l.objects.clear(), l.children.clear(), l.found.clear();
           })
      .def("_changes",
           [](Layout& l) {
             if (l.objects.size() != l.nodes.size())
               fail("the tensors of this layout were released: what changed is not known any more");
             return changes(l);
           })
      .def(
          "_difference",
          [](const Layout& a, const Layout& b, const std::vector<int32_t>& but) {
            return &a == &b ? std::string() : difference(a, b, but);
          },
          nb::arg("other"), nb::arg("but") = std::vector<int32_t>())
      .def_ro("_number_edges", &Layout::numbers)
      .def(
          "_others",
          [](const Layout& a, const Layout& b) {
            nb::list r;
            for (size_t i = 0; i < std::min(a.numbers.size(), b.numbers.size()); ++i) {
              const Edge &x = a.edges[a.numbers[i]], &y = b.edges[b.numbers[i]];
              if (number_guard(x) == number_guard(y) && x.bits != y.bits) r.append(i);
            }
            return r;
          },
          "The numbers that are others in another layout.")
      .def_prop_ro(
          "_generators",
          [](const Layout& l) {
            nb::list all;
            for (const Edge& e : l.edges)
              if (e.guard == Guard::Same && nb::isinstance<runtime::Generator>(e.expected))
                all.append(e.expected);
            return all;
          },
          "The generators that the function reaches, which are held.")
      .def("_object", [](const Layout& l, size_t node) { return l.objects.at(node); })
      .def(
          "_place",
          [](const Layout& l, size_t edge) {
            const Edge& e = l.edges.at(edge);
            const char* kind = e.access == By::Argument  ? "argument"
                               : e.access == By::Keyword ? "keyword"
                                                         : name_of(e.access);
            nb::object key =
                e.key.is_valid() && e.access != By::Argument ? e.key : nb::object(nb::int_(e.at));
            // The key of an entry stands before its value.
            if (e.access == By::Value) key = l.children.at(edge - 1);
            return nb::make_tuple(e.parent, kind, key);
          },
          "Where an edge leads from: a node, how, and the key.")
      .def("_reach", [](Layout& l, int32_t node, nb::object function, nb::tuple args, nb::dict kwargs) {
        nb::object o = reach(l, node, function.ptr(), args.ptr(), kwargs.ptr());
        return o.is_valid() ? o : nb::none();
      });
}

}  // namespace adjoint::bind
