! Adds the bytes of a file with a reader, and checks that each byte comes once.
program reader
    use, intrinsic :: iso_c_binding
    use sleds
    implicit none
    character(len=1024) :: path
    type(sleds_file) :: file
    type(c_ptr) :: pieces, data
    integer(c_int64_t) :: nbytes, offset, total, place
    integer(c_int8_t), pointer :: bytes(:)
    integer(c_int64_t) :: sum_of_bytes
    integer(c_int) :: more

    call get_command_argument(1, path)
    file = sleds_open(trim(path))
    pieces = sleds_reader_open(file%fd, sleds_auto, 65536_c_int64_t, sleds_no_records)
    if (.not. c_associated(pieces)) error stop 'the reader cannot be opened'
    total = 0
    place = 0
    sum_of_bytes = 0
    do
        more = sleds_reader_next(pieces, data, nbytes, offset)
        if (more <= 0) exit
        call c_f_pointer(data, bytes, [nbytes])
        sum_of_bytes = sum_of_bytes + sum(int(bytes, c_int64_t))
        total = total + nbytes
        place = max(place, offset + nbytes)
    end do
    if (more < 0) error stop 'the file cannot be read'
    if (sleds_reader_plan(pieces) < 0) error stop 'the reader has no plan'
    if (sleds_reader_close(pieces) /= 0) error stop 'the reader cannot be closed'
    call sleds_close(file)
    print *, total, place, sum_of_bytes
end program reader
