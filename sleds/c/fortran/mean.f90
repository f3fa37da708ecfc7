! Prints the mean of a file of 8-byte reals. The program reads the file by element in the cheapest
! order, as the paper's fimgbin reads its images.
!
!     mean FILE [FIRST_BYTE]
program mean
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: error_unit
    use sleds
    implicit none
    integer(c_int64_t), parameter :: element_size = 8, preferred = 8192
    character(len=4096) :: path, number
    type(sleds_file) :: file
    real(c_double), allocatable, target :: values(:)
    integer(c_int64_t) :: room, element, count, first_byte, total
    integer(c_int) :: more, status
    real(c_double) :: sum_of_all

    call get_command_argument(1, path)
    first_byte = 0
    if (command_argument_count() > 1) then
        call get_command_argument(2, number)
        read (number, *) first_byte
    end if
    file = sleds_open(path)
    if (file%fd < 0) call fail('cannot be opened')
    write (error_unit, '(a, es10.3, a, es10.3, a)') 'linear ', &
        sleds_total_delivery_time(file%fd, sleds_linear), ' s, best ', &
        sleds_total_delivery_time(file%fd, sleds_best), ' s'

    room = ff_sleds_pick_init(file%fd, first_byte, element_size, preferred)
    if (room < 0) call fail('cannot be picked from')
    allocate (values(room))
    sum_of_all = 0
    total = 0
    do
        more = ff_sleds_pick_next_read(file%fd, element, count)
        if (more <= 0) exit
        if (sleds_read(file, c_loc(values), count * element_size, &
            first_byte + element * element_size) /= count * element_size) call fail('cannot be read')
        sum_of_all = sum_of_all + sum(values(:count))
        total = total + count
    end do
    if (more < 0) call fail('cannot be picked from')
    status = ff_sleds_pick_finish(file%fd)
    call sleds_close(file)
    if (total == 0) call fail('has no elements')
    print '(i0, 1x, es23.16)', total, sum_of_all / real(total, c_double)

contains

    subroutine fail(words)
        character(len=*), intent(in) :: words
        write (error_unit, '(3a)') trim(path), ' ', words
        stop 1
    end subroutine fail

end program mean
