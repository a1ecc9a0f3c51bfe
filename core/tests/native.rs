//! MLX through mlx-rs on this machine: it links, computes, and reports a mistake as an `Err`.

use mlx_rs::Array;

#[test]
fn one_and_one_is_two() {
    let one = Array::from_f32(1.0);
    let two = one.add(&one).unwrap();
    two.eval().unwrap();
    assert_eq!(two.item_exact::<f32>(), 2.0);
}

/// mlx-c's own error handler would end the process here.
#[test]
fn a_shape_mismatch_is_an_error_and_not_the_end() {
    let (three, two) = (Array::from_slice(&[1f32, 2., 3.], &[3]), Array::from_slice(&[1f32, 2.], &[2]));
    let error = three.add(&two).unwrap_err();
    assert!(error.what().contains("broadcast"), "{}", error.what());
    assert_eq!(three.sum(None).unwrap().item_exact::<f32>(), 6.0);
}
