//! The C interface, called as mlx-rs calls it: it links, starts without LD_LIBRARY_PATH, computes and reports errors.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)] // each block calls mlx-c on handles made just before

use mlx_sys::*;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr::null_mut;
use std::sync::Once;

thread_local!(static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) });

/// In place of mlx-c's own handler, which ends the process.
extern "C" fn keep_message(message: *const c_char, _: *mut c_void) {
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    MESSAGE.set(text);
}

fn stream() -> mlx_stream {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| unsafe { mlx_set_error_handler(Some(keep_message), null_mut(), None) });
    unsafe { mlx_default_cpu_stream_new() }
}

fn array(values: &[f32], shape: &[c_int]) -> mlx_array {
    unsafe {
        mlx_array_new_data(
            values.as_ptr().cast(),
            shape.as_ptr(),
            shape.len() as c_int,
            mlx_dtype__MLX_FLOAT32,
        )
    }
}

/// Runs one operation; its result, or the message that the error handler was given.
fn run(operation: impl FnOnce(*mut mlx_array) -> c_int) -> Result<mlx_array, String> {
    let mut result = unsafe { mlx_array_new() };
    match operation(&mut result) {
        0 => Ok(result),
        _ => Err(MESSAGE.take()),
    }
}

fn values(array: mlx_array) -> Vec<f32> {
    unsafe {
        assert_eq!(mlx_array_eval(array), 0);
        std::slice::from_raw_parts(mlx_array_data_float32(array), mlx_array_size(array)).to_vec()
    }
}

#[test]
fn arrays_are_added() {
    let (s, a, b) = (stream(), array(&[1., 2., 3.], &[3]), array(&[10., 20., 30.], &[3]));
    let sum = run(|r| unsafe { mlx_add(r, a, b, s) }).unwrap();
    assert_eq!(values(sum), [11., 22., 33.]);
}

#[test]
fn matrices_are_multiplied() {
    let s = stream();
    let a = array(&[1., 2., 3., 4., 5., 6.], &[2, 3]);
    let b = array(&[1., 0., 0., 1., 1., 1.], &[3, 2]);
    let product = run(|r| unsafe { mlx_matmul(r, a, b, s) }).unwrap();
    assert_eq!(values(product), [4., 5., 10., 11.]);
}

#[cfg(target_os = "linux")]
#[test]
fn an_error_names_the_cause_and_no_folder_of_the_building_machine() {
    let (s, a, b) = (stream(), array(&[1., 2., 3.], &[3]), array(&[1., 2.], &[2]));
    let message = run(|r| unsafe { mlx_add(r, a, b, s) }).unwrap_err();
    assert!(message.contains("(3)") && message.contains("(2)"), "{message}");
    assert!(message.contains(" mlx-c/mlx/c/ops.cpp:"), "{message}");
    assert!(!message.contains(" /"), "{message}");
}

/// The shim's four functions: 1.5 is 0x3e00 as float16 and 0x3fc0 as bfloat16.
#[cfg(target_os = "linux")]
#[test]
fn sixteen_bit_values_are_read() {
    let (s, one_and_a_half) = (stream(), array(&[1.5], &[]));
    let half = run(|r| unsafe { mlx_astype(r, one_and_a_half, mlx_dtype__MLX_FLOAT16, s) }).unwrap();
    let brain = run(|r| unsafe { mlx_astype(r, one_and_a_half, mlx_dtype__MLX_BFLOAT16, s) }).unwrap();
    let (mut half_item, mut brain_item) = (__BindgenFloat16(0), 0);
    unsafe {
        assert_eq!(mlx_array_item_float16(&mut half_item, half), 0);
        assert_eq!(mlx_array_item_bfloat16(&mut brain_item, brain), 0);
        assert_eq!(((*mlx_array_data_float16(half)).0, half_item.0), (0x3e00, 0x3e00));
        assert_eq!((*mlx_array_data_bfloat16(brain), brain_item), (0x3fc0, 0x3fc0));
    }
}

/// compat.h's std::format, which mlx-c uses when a reader ends early: this one gives 3 bytes whatever is asked.
#[test]
fn a_formatted_message_has_its_values() {
    extern "C" fn yes(_: *mut c_void) -> bool {
        true
    }
    extern "C" fn start(_: *mut c_void) -> usize {
        0
    }
    extern "C" fn seek(_: *mut c_void, _: i64, _: c_int) -> c_int {
        0
    }
    extern "C" fn read(_: *mut c_void, _: *mut c_char, _: usize) -> usize {
        3
    }
    extern "C" fn read_at(_: *mut c_void, _: *mut c_char, _: usize, _: usize) -> usize {
        3
    }
    extern "C" fn label(_: *mut c_void) -> *const c_char {
        c"a short file".as_ptr()
    }
    extern "C" fn free(_: *mut c_void) {}
    let reader = mlx_io_vtable {
        is_open: Some(yes),
        good: Some(yes),
        tell: Some(start),
        seek: Some(seek),
        read: Some(read),
        read_at_offset: Some(read_at),
        write: None,
        label: Some(label),
        free: Some(free),
    };
    let s = stream();
    unsafe {
        let reader = mlx_io_reader_new(null_mut(), reader);
        let (mut arrays, mut strings) = (mlx_map_string_to_array_new(), mlx_map_string_to_string_new());
        assert_ne!(mlx_load_safetensors_reader(&mut arrays, &mut strings, reader, s), 0);
    }
    let message = MESSAGE.take();
    let expected = "[mlx_io_reader] unable to read 8 bytes (read 3 instead) in a short file";
    assert!(message.starts_with(expected), "{message}");
}

/// The bindings' version and the library's agree.
#[test]
fn the_library_is_the_pinned_one() {
    let version = unsafe {
        let mut text = mlx_string_new();
        assert_eq!(mlx_version(&mut text), 0);
        CStr::from_ptr(mlx_string_data(text)).to_str().unwrap().to_owned()
    };
    assert_eq!(version, "0.32.2");
}
