/* The floor under a call from Python: an empty method of two arguments that allocates one object.
 *
 * No binding of any kind can record an operation for less than this costs, so `benchmarks/cases/small.py` states the
 * price of a recorded operation as a multiple of it. Built on demand by `benchmarks/floor.py`; never installed.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

typedef struct {
  PyObject_HEAD
  void* payload[6]; /* about what a handle to a small tensor holds */
} Thing;

static PyTypeObject ThingType;

static PyObject* floor_method(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
  (void)self;
  if (nargs != 2) {
    PyErr_SetString(PyExc_TypeError, "call() takes two arguments");
    return NULL;
  }
  (void)args;
  return (PyObject*)PyObject_New(Thing, &ThingType);
}

static void thing_dealloc(PyObject* self) { PyObject_Free(self); }

static PyMethodDef thing_methods[] = {
    {"call", (PyCFunction)(void (*)(void))floor_method, METH_FASTCALL, "Allocate one object and return it."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject ThingType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "adjoint_floor.Thing",
    .tp_basicsize = sizeof(Thing),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = thing_dealloc,
    .tp_methods = thing_methods,
};

static PyObject* make(PyObject* self, PyObject* unused) {
  (void)self;
  (void)unused;
  return (PyObject*)PyObject_New(Thing, &ThingType);
}

static PyMethodDef functions[] = {
    {"make", make, METH_NOARGS, "A first object, whose `call` is the floor."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "adjoint_floor", NULL, -1, functions,
                                        NULL,                  NULL,            NULL, NULL};

PyMODINIT_FUNC PyInit_adjoint_floor(void) {
  if (PyType_Ready(&ThingType) < 0) return NULL;
  return PyModule_Create(&definition);
}
