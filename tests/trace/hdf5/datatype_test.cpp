#include "trace/hdf5/library/datatype.h"

#include <cstdint>

#include "base/refusal.h"
#include "support/temp_dir.h"
#include "trace/hdf5/library/file.h"
#include "trace/hdf5/library/library.h"
#include "trace/hdf5/odd_file.h"
#include "trace/hdf5/trace_files.h"

namespace ttrace::trace::hdf5::datatype_test {
namespace {

using tensor::DType;
using test::done;
using test::made;
using test::OddFile;
using test::TempDir;

TEST_CASE("every dtype is recognised by its HDF5 type") {
  for (const DType dtype : tensor::kAllDTypes) {
    CAPTURE(tensor::dtype_name(dtype));
    const Handle type = make_datatype(dtype);
    CHECK(recognise_datatype(type.get()) == dtype);
    CHECK(H5Tget_size(type.get()) == tensor::element_bytes(dtype));
  }
}

TEST_CASE("narrow floats have the fields that the format states") {
  struct Fields {
    DType dtype;
    std::size_t sign, exponent_at, exponent_bits, mantissa_bits, bias;
  };
  for (const Fields& expected :
       {Fields{DType::kFloat16, 15, 10, 5, 10, 15}, Fields{DType::kBFloat16, 15, 7, 8, 7, 127},
        Fields{DType::kFloat8E4M3, 7, 3, 4, 3, 7}, Fields{DType::kFloat8E5M2, 7, 2, 5, 2, 15}}) {
    CAPTURE(tensor::dtype_name(expected.dtype));
    const Handle type = make_datatype(expected.dtype);
    std::size_t sign = 0, exponent_at = 0, exponent_bits = 0, mantissa_at = 9, mantissa_bits = 0;
    done(H5Tget_fields(type.get(), &sign, &exponent_at, &exponent_bits, &mantissa_at,
                       &mantissa_bits));
    CHECK(sign == expected.sign);
    CHECK(exponent_at == expected.exponent_at);
    CHECK(exponent_bits == expected.exponent_bits);
    CHECK(mantissa_at == 0);
    CHECK(mantissa_bits == expected.mantissa_bits);
    CHECK(H5Tget_ebias(type.get()) == expected.bias);
    CHECK(H5Tget_order(type.get()) == H5T_ORDER_LE);
  }
}

// Opening a dataset of `type` is refused.
void refuse_type(hid_t type) {
  const TempDir dir;
  {
    const OddFile odd(dir.file("t.h5"));
    odd.dataset("/x", type, test::simple_space({2}), test::creation_list());
  }
  const auto file = File::open(dir.file("t.h5"));
  test::check_refused([&] { file->open_dataset("/x"); },
                      {dir.file("t.h5"), "/x", "the element type is none of the trace format's"});
}

TEST_CASE("big-endian types are refused") {
  const LibraryLock lock;
  refuse_type(H5T_IEEE_F64BE);
  refuse_type(H5T_IEEE_F32BE);
  refuse_type(H5T_STD_I16BE);
  refuse_type(H5T_STD_U64BE);
  const Handle half = make_datatype(DType::kFloat16);
  done(H5Tset_order(half.get(), H5T_ORDER_BE));
  refuse_type(half.get());
}

TEST_CASE("types that are no numbers of the format are refused") {
  const LibraryLock lock;
  const Handle compound(made(H5Tcreate(H5T_COMPOUND, 8)), H5Tclose);
  done(H5Tinsert(compound.get(), "real", 0, H5T_IEEE_F32LE));
  done(H5Tinsert(compound.get(), "imaginary", 4, H5T_IEEE_F32LE));
  refuse_type(compound.get());
  const hsize_t three = 3;
  const Handle array(made(H5Tarray_create2(H5T_IEEE_F32LE, 1, &three)), H5Tclose);
  refuse_type(array.get());
  const Handle opaque(made(H5Tcreate(H5T_OPAQUE, 4)), H5Tclose);
  refuse_type(opaque.get());
  refuse_type(test::text_type(4).get());
  refuse_type(test::text_type(H5T_VARIABLE).get());
  refuse_type(H5T_STD_B8LE);
  refuse_type(H5T_STD_REF_OBJ);
  refuse_type(H5T_NATIVE_LDOUBLE);
}

TEST_CASE("numbers with other fields than the format's are refused") {
  const LibraryLock lock;
  const Handle biased = make_datatype(DType::kBFloat16);
  done(H5Tset_ebias(biased.get(), 126));
  refuse_type(biased.get());
  const Handle narrow(made(H5Tcopy(H5T_STD_I32LE)), H5Tclose);
  done(H5Tset_precision(narrow.get(), 24));
  refuse_type(narrow.get());
}

TEST_CASE("only the enumeration of false and true is bool") {
  const LibraryLock lock;
  const auto enumeration = [](hid_t base, const char* no, const char* yes) {
    Handle type(made(H5Tenum_create(base)), H5Tclose);
    const std::int8_t values[] = {0, 1};
    done(H5Tenum_insert(type.get(), no, &values[0]));
    done(H5Tenum_insert(type.get(), yes, &values[1]));
    return type;
  };
  CHECK(recognise_datatype(enumeration(H5T_STD_I8LE, "FALSE", "TRUE").get()) == DType::kBool);
  refuse_type(enumeration(H5T_STD_I8LE, "TRUE", "FALSE").get());
  refuse_type(enumeration(H5T_STD_I8LE, "no", "yes").get());
  refuse_type(enumeration(H5T_STD_U8LE, "FALSE", "TRUE").get());
}

// Opens a dataset of float32 whose ttrace_dtype is `stated`.
void open_stated(const std::string& stated, bool variable = false) {
  const TempDir dir;
  {
    const LibraryLock lock;
    const OddFile odd(dir.file("t.h5"));
    const Handle object = odd.four_floats("/x");
    if (variable) {
      const Handle type = test::text_type(H5T_VARIABLE);
      const Handle space = test::scalar_space();
      const Handle attribute(made(H5Acreate2(object.get(), "ttrace_dtype", type.get(), space.get(),
                                             H5P_DEFAULT, H5P_DEFAULT)),
                             H5Aclose);
      const char* text = stated.c_str();
      done(H5Awrite(attribute.get(), type.get(), &text));
    } else {
      OddFile::attribute(object, "ttrace_dtype", stated);
    }
  }
  File::open(dir.file("t.h5"))->open_dataset("/x");
}

TEST_CASE("a ttrace_dtype that agrees is accepted in both forms of text") {
  CHECK_NOTHROW(open_stated("float32"));
  CHECK_NOTHROW(open_stated("float32", true));
}

TEST_CASE("a ttrace_dtype that lies is refused") {
  for (const bool variable : {false, true}) {
    test::check_refused([&] { open_stated("float16", variable); },
                        {"/x", "ttrace_dtype says \"float16\", the dataset's type is float32"});
    test::check_refused([&] { open_stated("float32x", variable); }, {"\"float32x\""});
    test::check_refused([&] { open_stated(std::string(70, 'f'), variable); }, {"ttrace_dtype"});
  }
}

TEST_CASE("a ttrace_dtype that is no text is refused") {
  const TempDir dir;
  {
    const LibraryLock lock;
    const OddFile odd(dir.file("t.h5"));
    const Handle object = odd.four_floats("/x");
    const Handle space = test::scalar_space();
    const Handle attribute(made(H5Acreate2(object.get(), "ttrace_dtype", H5T_STD_I32LE, space.get(),
                                           H5P_DEFAULT, H5P_DEFAULT)),
                           H5Aclose);
  }
  const auto file = File::open(dir.file("t.h5"));
  test::check_refused([&] { file->open_dataset("/x"); }, {"/x", "ttrace_dtype"});
}

TEST_CASE("the library's version is told") {
  const std::string version = library_version();
  CAPTURE(version);
  CHECK(version.find_first_of("123456789") == 0);
  CHECK(version.find('.') != std::string::npos);
}

}  // namespace
}  // namespace ttrace::trace::hdf5::datatype_test
