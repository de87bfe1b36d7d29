# What the program says of itself, as files: share.cmake with PROGRAM and SHARE.

function(said file)
  execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE ${SHARE}/${file} "${text}")
endfunction()

# The commands are those of the page of the program: "steelyard-weigh (1)".
said(man/man1/steelyard.1 help --man)
file(READ ${SHARE}/man/man1/steelyard.1 page)
string(REGEX MATCHALL "BR steelyard\\\\-[a-z]+" names "${page}")
if(NOT names)
  message(FATAL_ERROR "no commands in the manual page of the program")
endif()
foreach(name ${names})
  string(REGEX REPLACE "^BR steelyard..?" "" command ${name})
  said(man/man1/steelyard-${command}.1 help --man ${command})
endforeach()
said(bash-completion/completions/steelyard completion bash)
said(zsh/site-functions/_steelyard completion zsh)
said(fish/vendor_completions.d/steelyard.fish completion fish)
file(WRITE ${SHARE}/done "")
